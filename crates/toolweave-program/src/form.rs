//! Which of the forms that models send a program has, and the edits that make it the body of an async function.
//!
//! Works on the syntax tree only. Every edit keeps the lines of the text.

use std::collections::{HashMap, HashSet};

use swc_common::Spanned;
use swc_ecma_ast::*;

use crate::error::ErrorKind;
use crate::literal::peel;
use crate::parse::offset;
use crate::position::{Edit, blank};
use crate::walk::Walk;

/// How a program was written, and thereby what was done to run it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// Nothing but white space, comments and types: runs, and does nothing.
    Empty,
    /// Statements that return what they return.
    Body,
    /// Statements whose last one is an expression: its value is returned.
    TrailingExpression,
    /// A function or arrow expression at the end: it is called.
    FunctionExpression,
    /// A function that the program defines and does not call: it is called.
    Function {
        /// Its name.
        name: String,
    },
    /// A default export: a function is called, another value returned.
    DefaultExport,
}

/// What to do with a program.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) form: Form,
    /// Sorted by place, not overlapping.
    pub(crate) edits: Vec<Edit>,
    /// The function that is called in the end, as the walk names it.
    pub(crate) entry: Option<usize>,
    pub(crate) uncalled: Vec<(usize, String)>,
    /// Names of async functions of the top level.
    pub(crate) async_functions: HashSet<String>,
    /// The last statement, if the program gives no result.
    pub(crate) no_result: Option<NoResult>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct NoResult {
    pub(crate) at: usize,
    pub(crate) what: Ending,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Ending {
    /// A declaration of names that nothing uses.
    Declaration(String),
    /// `{ a: 1 }` as a statement is a block.
    Block,
    Other,
}

#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) kind: ErrorKind,
    pub(crate) at: usize,
    pub(crate) message: String,
}

/// Returns the start of the expression statement whose value is the result, if the program ends in one.
pub(crate) fn trailing(module: &Module) -> Option<usize> {
    match module.body.iter().rfind(|item| role(item) != Role::Nothing) {
        Some(ModuleItem::Stmt(Stmt::Expr(statement))) => Some(offset(statement.span.lo)),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Leaves nothing behind: types, empty statements, `"use strict"`.
    Nothing,
    /// Functions, classes, enums, namespaces.
    Definition,
    Variables,
    Action,
}

fn role(item: &ModuleItem) -> Role {
    match item {
        ModuleItem::ModuleDecl(decl) => match decl {
            ModuleDecl::ExportDecl(export) => decl_role(&export.decl),
            ModuleDecl::ExportDefaultDecl(export) => match &export.decl {
                DefaultDecl::TsInterfaceDecl(_) => Role::Nothing,
                _ => Role::Definition,
            },
            ModuleDecl::ExportDefaultExpr(_) | ModuleDecl::TsExportAssignment(_) => Role::Action,
            ModuleDecl::TsImportEquals(import) if !import.is_type_only => Role::Variables,
            _ => Role::Nothing,
        },
        ModuleItem::Stmt(Stmt::Decl(decl)) => decl_role(decl),
        ModuleItem::Stmt(Stmt::Empty(_)) => Role::Nothing,
        ModuleItem::Stmt(Stmt::Expr(statement)) => match &*statement.expr {
            Expr::Lit(Lit::Str(text)) if text.value.as_str() == Some("use strict") => Role::Nothing,
            _ => Role::Action,
        },
        ModuleItem::Stmt(_) => Role::Action,
    }
}

fn decl_role(decl: &Decl) -> Role {
    match decl {
        Decl::TsInterface(_) | Decl::TsTypeAlias(_) => Role::Nothing,
        Decl::TsModule(module) if module.declare || module.global || module.body.is_none() => Role::Nothing,
        Decl::TsEnum(decl) if decl.declare => Role::Nothing,
        Decl::Var(decl) if decl.declare => Role::Nothing,
        Decl::Fn(decl) if decl.declare || decl.function.body.is_none() => Role::Nothing,
        Decl::Class(decl) if decl.declare => Role::Nothing,
        Decl::TsModule(_) | Decl::TsEnum(_) | Decl::Fn(_) | Decl::Class(_) => Role::Definition,
        Decl::Var(_) | Decl::Using(_) => Role::Variables,
    }
}

/// A function of the top level that has a name.
#[derive(Debug)]
struct Named {
    name: String,
    at: usize,
    end: usize,
    shape: Shape,
}

/// How a function can be called.
#[derive(Clone, Debug)]
struct Shape {
    id: usize,
    is_async: bool,
    generator: bool,
    params: usize,
    required: usize,
    /// The first parameter is a pattern that takes `tools` out of an object.
    wants_wrapper: bool,
}

impl Shape {
    fn of(expr: &Expr) -> Option<Self> {
        match peel(expr) {
            Expr::Arrow(arrow) => {
                let kind = (arrow.is_async, arrow.is_generator);
                Some(Self::new(offset(arrow.span.lo), kind, arrow.params.iter()))
            }
            Expr::Fn(function) => Some(Self::of_function(&function.function)),
            _ => None,
        }
    }

    fn of_function(function: &Function) -> Self {
        let params = function.params.iter().map(|param| &param.pat);
        Self::new(
            offset(function.span.lo),
            (function.is_async, function.is_generator),
            params,
        )
    }

    fn new<'a>(
        id: usize,
        (is_async, generator): (bool, bool),
        params: impl Iterator<Item = &'a Pat> + Clone,
    ) -> Self {
        let required = |pat: &&Pat| match pat {
            Pat::Rest(_) | Pat::Assign(_) => false,
            Pat::Ident(ident) => !ident.optional,
            _ => true,
        };
        let wants_wrapper = match params.clone().next() {
            Some(Pat::Object(object)) => object.props.iter().any(|prop| match prop {
                ObjectPatProp::Assign(prop) => &*prop.key.sym == "tools",
                ObjectPatProp::KeyValue(prop) => {
                    crate::literal::key_text(&prop.key).is_some_and(|key| key == "tools")
                }
                ObjectPatProp::Rest(_) => false,
            }),
            _ => false,
        };
        let required = params.clone().filter(required).count();
        Self {
            id,
            is_async,
            generator,
            params: params.count(),
            required,
            wants_wrapper,
        }
    }

    /// Returns the argument list of the call, or what keeps the function from being called.
    fn arguments(&self) -> Result<&'static str, String> {
        if self.generator {
            return Err("is a generator".to_owned());
        }
        match (self.required, self.params) {
            (2.., _) => Err(format!("takes {} parameters", self.required)),
            (_, 0) => Ok("()"),
            _ if self.wants_wrapper => Ok("({tools})"),
            _ => Ok("(tools)"),
        }
    }
}

struct Planner<'a> {
    source: &'a str,
    walk: &'a Walk,
    edits: Vec<Edit>,
    named: Vec<Named>,
    default: Option<Default>,
}

enum Default {
    /// A function declared under this name.
    Call {
        name: String,
        shape: Shape,
    },
    /// The value kept under this name, which may be that of a known function.
    Value {
        name: String,
        of: Option<String>,
        shape: Option<Shape>,
    },
    Class {
        at: usize,
    },
}

/// Decides what to do with a program.
pub(crate) fn plan(source: &str, module: &Module, walk: &Walk) -> Result<Plan, Refusal> {
    let mut planner = Planner {
        source,
        walk,
        edits: Vec::new(),
        named: Vec::new(),
        default: None,
    };
    if let Some(shebang) = &module.shebang {
        planner.replace(
            0,
            shebang.len() + 2,
            blank(source.get(..shebang.len() + 2).unwrap_or_default()),
        );
    }
    for item in &module.body {
        planner.item(item)?;
    }
    planner.finish(module)
}

impl Planner<'_> {
    fn replace(&mut self, at: usize, end: usize, insert: String) {
        self.edits.push(Edit {
            at,
            remove: end.saturating_sub(at),
            insert,
        });
    }

    /// Removes a statement; the semicolon keeps its neighbours apart.
    fn erase(&mut self, spanned: &impl Spanned) {
        let span = spanned.span();
        let (at, end) = (offset(span.lo), offset(span.hi));
        let mut text = blank(self.source.get(at..end).unwrap_or_default());
        if text.starts_with(' ') {
            text.replace_range(..1, ";");
        }
        self.replace(at, end, text);
    }

    /// Replaces `export` or `export default` before a declaration.
    fn unexport(&mut self, at: usize, decl: usize, head: &str) {
        let removed = self.source.get(at..decl).unwrap_or_default();
        let mut text = blank(removed);
        // The head goes first, then the line ends; what fits is padded so that columns stay.
        let pad = text.find(|c| c != ' ').unwrap_or(text.len()).min(head.len());
        text.replace_range(..pad, head);
        self.replace(at, decl, text);
    }

    fn item(&mut self, item: &ModuleItem) -> Result<(), Refusal> {
        match item {
            ModuleItem::Stmt(Stmt::Decl(decl)) => self.name_functions(decl),
            ModuleItem::Stmt(_) => {}
            ModuleItem::ModuleDecl(decl) => return self.module_decl(decl),
        }
        Ok(())
    }

    fn name_functions(&mut self, decl: &Decl) {
        match decl {
            Decl::Fn(decl) if !decl.declare && decl.function.body.is_some() => {
                let span = decl.function.span;
                self.named.push(Named {
                    name: decl.ident.sym.to_string(),
                    at: offset(span.lo),
                    end: offset(span.hi),
                    shape: Shape::of_function(&decl.function),
                });
            }
            Decl::Var(decl) if !decl.declare => {
                for declarator in &decl.decls {
                    let (Pat::Ident(ident), Some(init)) = (&declarator.name, &declarator.init) else {
                        continue;
                    };
                    let Some(shape) = Shape::of(init) else { continue };
                    let span = declarator.span;
                    let (at, end) = (offset(span.lo), offset(span.hi));
                    self.named.push(Named {
                        name: ident.sym.to_string(),
                        at,
                        end,
                        shape,
                    });
                }
            }
            _ => {}
        }
    }

    fn module_decl(&mut self, decl: &ModuleDecl) -> Result<(), Refusal> {
        match decl {
            ModuleDecl::Import(import) => {
                let named_types = !import.specifiers.is_empty()
                    && import.specifiers.iter().all(
                        |specifier| matches!(specifier, ImportSpecifier::Named(named) if named.is_type_only),
                    );
                if !import.type_only && !named_types {
                    return Err(import_refusal(import));
                }
                self.erase(import);
            }
            ModuleDecl::ExportDecl(export) if decl_role(&export.decl) == Role::Nothing => self.erase(export),
            ModuleDecl::ExportDecl(export) => {
                let (at, decl_at) = (offset(export.span.lo), offset(export.decl.span().lo));
                self.unexport(at, decl_at, ";");
                self.name_functions(&export.decl);
            }
            ModuleDecl::ExportNamed(export) => self.named_export(export)?,
            ModuleDecl::ExportAll(export) => {
                if !export.type_only {
                    return Err(module_refusal(
                        "re-exports",
                        &module_name(&export.src),
                        offset(export.span.lo),
                    ));
                }
                self.erase(export);
            }
            ModuleDecl::ExportDefaultDecl(export) => {
                let at = offset(export.span.lo);
                match &export.decl {
                    DefaultDecl::TsInterfaceDecl(_) => self.erase(export),
                    DefaultDecl::Class(_) => self.default = Some(Default::Class { at }),
                    DefaultDecl::Fn(function) => {
                        let decl = offset(function.function.span.lo);
                        let shape = Shape::of_function(&function.function);
                        if function.function.body.is_none() {
                            // An overload signature of a default export.
                            self.erase(export);
                        } else if let Some(ident) = &function.ident {
                            self.unexport(at, decl, ";");
                            self.default = Some(Default::Call {
                                name: ident.sym.to_string(),
                                shape,
                            });
                        } else {
                            let name = self.fresh_name();
                            self.unexport(at, decl, &format!(";const {name}="));
                            self.insert(offset(export.span.hi), ";");
                            self.default = Some(Default::Value {
                                name,
                                of: None,
                                shape: Some(shape),
                            });
                        }
                    }
                }
            }
            ModuleDecl::ExportDefaultExpr(export) => self.default_value(offset(export.span.lo), &export.expr),
            ModuleDecl::TsExportAssignment(export) => {
                self.default_value(offset(export.span.lo), &export.expr)
            }
            ModuleDecl::TsImportEquals(import) => {
                let at = offset(import.span.lo);
                match &import.module_ref {
                    _ if import.is_type_only => self.erase(&**import),
                    TsModuleRef::TsExternalModuleRef(module) => {
                        return Err(module_refusal("imports", &module_name(&module.expr), at));
                    }
                    // `import A = N.B` is a constant with a strange name.
                    TsModuleRef::TsEntityName(_) => self.unexport(at, offset(import.id.span.lo), ";const "),
                }
            }
            ModuleDecl::TsNamespaceExport(export) => self.erase(export),
        }
        Ok(())
    }

    fn named_export(&mut self, export: &NamedExport) -> Result<(), Refusal> {
        let types_only = export.type_only
            || (!export.specifiers.is_empty()
                && export
                    .specifiers
                    .iter()
                    .all(|one| matches!(one, ExportSpecifier::Named(named) if named.is_type_only)));
        if let (Some(src), false) = (&export.src, types_only) {
            return Err(module_refusal(
                "re-exports",
                &module_name(src),
                offset(export.span.lo),
            ));
        }
        for specifier in &export.specifiers {
            if let ExportSpecifier::Named(ExportNamedSpecifier {
                orig: ModuleExportName::Ident(orig),
                exported: Some(exported),
                is_type_only: false,
                ..
            }) = specifier
                && !types_only
                && exported_name(exported) == Some("default")
            {
                let name = orig.sym.to_string();
                self.default = Some(Default::Value {
                    name: name.clone(),
                    of: Some(name),
                    shape: None,
                });
            }
        }
        self.erase(export);
        Ok(())
    }

    fn default_value(&mut self, at: usize, expr: &Expr) {
        let span = expr.span();
        let name = self.fresh_name();
        let of = match peel(expr) {
            Expr::Ident(ident) => Some(ident.sym.to_string()),
            _ => None,
        };
        self.unexport(at, offset(span.lo), &format!(";const {name}=("));
        self.insert(offset(span.hi), ");");
        self.default = Some(Default::Value {
            name,
            of,
            shape: Shape::of(expr),
        });
    }

    fn insert(&mut self, at: usize, text: &str) {
        self.edits.push(Edit {
            at,
            remove: 0,
            insert: text.to_owned(),
        });
    }

    fn fresh_name(&self) -> String {
        let mut name = "$default".to_owned();
        while self.source.contains(&name) {
            name.push('_');
        }
        name
    }

    fn finish(mut self, module: &Module) -> Result<Plan, Refusal> {
        let items: Vec<_> = module
            .body
            .iter()
            .filter(|item| role(item) != Role::Nothing)
            .collect();
        // After the last item, whatever it is: behind it there are only comments.
        let end = module.body.last().map_or(0, |item| offset(item.span().hi));
        let referenced = self.referenced();
        if let Some(default) = self.default.take() {
            return self.finish_default(default, end);
        }
        let Some(last) = items.last() else {
            return Ok(self.done(Form::Empty, None));
        };
        let returns = !self.walk.returns.is_empty();
        let candidates: Vec<_> = (0..self.named.len())
            .filter(|&index| !referenced[index])
            .collect();
        if returns {
            // The first return that no condition guards is the one that counts.
            self.refuse_returned_function(items.iter().find_map(|item| match item {
                ModuleItem::Stmt(Stmt::Return(statement)) => Some(statement),
                _ => None,
            }))?;
            return Ok(self.done(Form::Body, None));
        }
        if let ModuleItem::Stmt(Stmt::Expr(statement)) = last {
            return self.finish_expression(statement, &candidates);
        }
        let entry = candidates
            .iter()
            .find(|&&index| self.named[index].name == "main")
            .or_else(|| candidates.iter().find(|&&index| self.named[index].name == "run"));
        let acts = self.walk.awaits_at_top
            || items.iter().any(|item| role(item) == Role::Action)
            || self.walk.calls.iter().any(|call| call.owner.is_none());
        let entry = match (entry, &candidates[..]) {
            (Some(&index), _) => Some(index),
            (None, _) if acts => None,
            (None, &[index]) => Some(index),
            (None, []) if items.iter().any(|item| role(item) == Role::Variables) => None,
            (None, _) => return Err(self.only_definitions(&candidates, last)),
        };
        if let Some(index) = entry {
            let named = &self.named[index];
            let (name, shape) = (named.name.clone(), named.shape.clone());
            let arguments = shape.arguments().map_err(|reason| Refusal {
                kind: ErrorKind::OnlyDefinitions,
                at: named.at,
                message: format!(
                    "the program only defines `{name}`, which {reason} and so cannot be called for you; call it \
                     and return its value: `return await {name}(...)`"
                ),
            })?;
            self.insert(end, &format!(";return {name}{arguments};"));
            let id = shape.id;
            let mut plan = self.done(Form::Function { name }, Some(id));
            if !plan.prints_or_returns(self.walk, id) {
                plan.no_result = Some(NoResult {
                    at: id,
                    what: Ending::Other,
                });
            }
            return Ok(plan);
        }
        let uncalled = self.uncalled(&candidates);
        let no_result = self.no_result(last);
        let mut plan = self.done(Form::Body, None);
        plan.uncalled = uncalled;
        plan.no_result = no_result;
        Ok(plan)
    }

    fn done(&mut self, form: Form, entry: Option<usize>) -> Plan {
        let mut edits = std::mem::take(&mut self.edits);
        edits.sort_by_key(|edit| edit.at);
        let is_async = |named: &&Named| named.shape.is_async;
        let async_functions = self
            .named
            .iter()
            .filter(is_async)
            .map(|named| named.name.clone())
            .collect();
        Plan {
            form,
            edits,
            entry,
            uncalled: Vec::new(),
            async_functions,
            no_result: None,
        }
    }

    /// Says for each named function whether anything outside of itself mentions it.
    fn referenced(&self) -> Vec<bool> {
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, named) in self.named.iter().enumerate() {
            by_name.entry(&named.name).or_default().push(index);
        }
        let mut referenced = vec![false; self.named.len()];
        for (name, at, _) in &self.walk.uses {
            for &index in by_name.get(name.as_str()).into_iter().flatten() {
                let named = &self.named[index];
                referenced[index] |= !(named.at..named.end).contains(at);
            }
        }
        referenced
    }

    fn uncalled(&self, candidates: &[usize]) -> Vec<(usize, String)> {
        let named = candidates.iter().map(|&index| &self.named[index]);
        named.map(|named| (named.at, named.name.clone())).collect()
    }

    fn finish_default(mut self, default: Default, end: usize) -> Result<Plan, Refusal> {
        let (name, shape) = match default {
            Default::Call { name, shape } => (name, Some(shape)),
            Default::Value { name, of, shape } => {
                let known = of.and_then(|of| self.named.iter().find(|named| named.name == of));
                (name, shape.or_else(|| known.map(|named| named.shape.clone())))
            }
            Default::Class { at } => {
                return Err(Refusal {
                    kind: ErrorKind::OnlyDefinitions,
                    at,
                    message:
                        "the default export is a class, which nothing calls; export a function, or use the \
                              class and `return` a value"
                            .to_owned(),
                });
            }
        };
        let call = match &shape {
            None => String::new(),
            Some(shape) => shape
                .arguments()
                .map_err(|reason| Refusal {
                    kind: ErrorKind::OnlyDefinitions,
                    at: shape.id,
                    message: format!(
                        "the default export is a function that {reason} and so cannot be called for you; call it \
                         yourself and `return` its value"
                    ),
                })?
                .to_owned(),
        };
        self.insert(end, &format!(";return {name}{call};"));
        Ok(self.done(Form::DefaultExport, shape.map(|shape| shape.id)))
    }

    fn finish_expression(mut self, statement: &ExprStmt, candidates: &[usize]) -> Result<Plan, Refusal> {
        let span = statement.expr.span();
        let (at, end) = (offset(span.lo), offset(span.hi));
        if let Some(shape) = Shape::of(&statement.expr) {
            let arguments = shape.arguments().map_err(|reason| Refusal {
                kind: ErrorKind::OnlyDefinitions,
                at,
                message: format!(
                    "the program is a function that {reason} and so cannot be called for you; call it yourself \
                     and `return` its value"
                ),
            })?;
            self.insert(at, "return (");
            self.insert(end, &format!("){arguments}"));
            let id = shape.id;
            let mut plan = self.done(Form::FunctionExpression, Some(id));
            if !plan.prints_or_returns(self.walk, id) {
                plan.no_result = Some(NoResult {
                    at: id,
                    what: Ending::Other,
                });
            }
            return Ok(plan);
        }
        if let Expr::Ident(ident) = peel(&statement.expr) {
            self.refuse_function_value(&ident.sym, at)?;
        }
        match peel(&statement.expr) {
            // `void main()`: what it starts must be waited for.
            Expr::Unary(unary) if unary.op == UnaryOp::Void => {
                self.insert(at, "return ");
                self.insert(offset(unary.arg.span().lo), "await ");
            }
            _ => self.insert(at, "return "),
        }
        let uncalled = self.uncalled(candidates);
        let mut plan = self.done(Form::TrailingExpression, None);
        plan.uncalled = uncalled;
        Ok(plan)
    }

    /// A program that returns one of its functions returns nothing useful.
    fn refuse_returned_function(&self, returned: Option<&ReturnStmt>) -> Result<(), Refusal> {
        let Some(statement) = returned else {
            return Ok(());
        };
        let Some(value) = &statement.arg else {
            return Ok(());
        };
        let at = offset(statement.span.lo);
        match peel(value) {
            Expr::Ident(ident) => self.refuse_function_value(&ident.sym, at),
            Expr::Arrow(_) | Expr::Fn(_) => Err(Refusal {
                kind: ErrorKind::OnlyDefinitions,
                at,
                message: "the program returns a function instead of a value; call it: `return await (...)()`"
                    .into(),
            }),
            _ => Ok(()),
        }
    }

    fn refuse_function_value(&self, name: &str, at: usize) -> Result<(), Refusal> {
        if !self.named.iter().any(|named| named.name == name) || !self.walk.bound_once(name) {
            return Ok(());
        }
        Err(Refusal {
            kind: ErrorKind::OnlyDefinitions,
            at,
            message: format!(
                "the value of the program is the function `{name}` itself; call it: `return await {name}()`"
            ),
        })
    }

    fn only_definitions(&self, candidates: &[usize], last: &ModuleItem) -> Refusal {
        let names: Vec<_> = candidates
            .iter()
            .take(5)
            .map(|&index| format!("`{}`", self.named[index].name))
            .collect();
        let message = match names.split_first() {
            Some((first, _)) => format!(
                "the program only defines functions ({}) and calls none of them; call the one to run at the end, \
                 for example `return await {}()`, or name it `main`",
                names.join(", "),
                first.trim_matches('`')
            ),
            None => {
                "the program only defines things and runs nothing; end it with the call to make and `return` \
                     its value"
                    .to_owned()
            }
        };
        let at = candidates
            .first()
            .map_or_else(|| offset(last.span().lo), |&index| self.named[index].at);
        Refusal {
            kind: ErrorKind::OnlyDefinitions,
            at,
            message,
        }
    }

    fn no_result(&self, last: &ModuleItem) -> Option<NoResult> {
        if matches!(last, ModuleItem::Stmt(Stmt::Throw(_))) {
            return None;
        }
        let at = offset(last.span().lo);
        let decl = match last {
            ModuleItem::Stmt(Stmt::Decl(decl)) => Some(decl),
            ModuleItem::ModuleDecl(ModuleDecl::ExportDecl(export)) => Some(&export.decl),
            _ => None,
        };
        if let Some(Decl::Var(decl)) = decl
            && let Some(VarDeclarator {
                name: Pat::Ident(ident),
                ..
            }) = decl.decls.last()
            && !self.walk.uses.iter().any(|(name, ..)| **name == *ident.sym)
        {
            return Some(NoResult {
                at,
                what: Ending::Declaration(ident.sym.to_string()),
            });
        }
        if self.walk.prints {
            return None;
        }
        let what = match last {
            ModuleItem::Stmt(Stmt::Block(block)) if matches!(&block.stmts[..], [Stmt::Labeled(labeled)] if matches!(&*labeled.body, Stmt::Expr(_))) => {
                Ending::Block
            }
            _ => Ending::Other,
        };
        Some(NoResult { at, what })
    }
}

impl Plan {
    fn prints_or_returns(&self, walk: &Walk, id: usize) -> bool {
        walk.prints || walk.returning.contains(&id)
    }
}

fn module_name(src: &Str) -> String {
    src.value.to_string_lossy().chars().take(200).collect()
}

fn exported_name(name: &ModuleExportName) -> Option<&str> {
    match name {
        ModuleExportName::Ident(ident) => Some(&ident.sym),
        ModuleExportName::Str(text) => text.value.as_str(),
    }
}

fn module_refusal(verb: &str, module: &str, at: usize) -> Refusal {
    Refusal {
        kind: ErrorKind::Import,
        at,
        message: format!(
            "the program {verb} \"{module}\", but modules are not available (no import, no require); everything \
             outside of the language is reached through `tools`: `await tools.NAME({{ ... }})`"
        ),
    }
}

fn import_refusal(import: &ImportDecl) -> Refusal {
    let module = module_name(&import.src);
    let names: Vec<_> = import
        .specifiers
        .iter()
        .filter_map(|specifier| match specifier {
            ImportSpecifier::Named(named) if !named.is_type_only => Some(match &named.imported {
                Some(imported) => exported_name(imported).unwrap_or(&named.local.sym).to_owned(),
                None => named.local.sym.to_string(),
            }),
            _ => None,
        })
        .collect();
    let at = offset(import.span.lo);
    // Names of a Node module are functions of Node; names of another module are likely those of tools.
    if module.starts_with("node:") || names.is_empty() {
        return module_refusal("imports", &module, at);
    }
    let calls: Vec<_> = names
        .iter()
        .take(3)
        .map(|name| format!("`tools.{name}(...)`"))
        .collect();
    Refusal {
        kind: ErrorKind::Import,
        at,
        message: format!(
            "the program imports \"{module}\", but modules are not available; remove the import, and if {} a tool, \
             call {} instead (use `import type` for types)",
            if names.len() == 1 { "it is" } else { "these are" },
            calls.join(", ")
        ),
    }
}
