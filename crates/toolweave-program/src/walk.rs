//! One pass over the syntax tree that collects what later steps ask about: calls of tools and what becomes of
//! their promises, names and where they are used, top-level returns, and syntax that cannot run.
//!
//! Judges nothing. Scopes are not resolved: a name counts as known only where the program binds it once, which
//! errs on the side of silence.

use std::collections::HashMap;

use swc_common::{BytePos, Spanned};
use swc_ecma_ast::*;
use swc_ecma_visit::{Visit, VisitWith};

use crate::literal::{Literal, key_text, peel, string_of};
use crate::parse::offset;

/// Names under which a program sees its tools.
pub(crate) const ROOTS: [&str; 2] = ["tools", "sdk"];

/// Calls that are kept; a program with more is generated, and the first ones say enough.
const MAX_CALLS: usize = 10_000;

/// A name of the program.
pub(crate) type Name = String;

/// What becomes of the value of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Usage {
    /// Passed on, chained, compared: somebody may wait for it.
    Value,
    Awaited,
    Returned,
    Stored(Name),
    Discarded,
    Voided,
    /// A property of it is read.
    Property(String),
    /// It is taken apart by a pattern.
    Destructured,
    /// It is used as if it were the value itself.
    Operand(&'static str),
    /// It is a part of the literal that the program returns.
    InResult,
    /// It is a part of the argument of a tool call.
    InArgument,
}

#[derive(Debug)]
pub(crate) struct RawCall {
    pub(crate) root: String,
    pub(crate) path: Vec<String>,
    /// Names that the path goes through; each must be bound once.
    pub(crate) via: Vec<Name>,
    pub(crate) at: usize,
    /// The function that the call stands in; nothing at the top level.
    pub(crate) owner: Option<usize>,
    pub(crate) reached: bool,
    pub(crate) optional: bool,
    /// Whether `await` may be written where the call stands.
    pub(crate) in_async: bool,
    pub(crate) usage: Usage,
    pub(crate) argument: Option<Literal>,
    pub(crate) argument_count: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Read as a promise or as anything.
    Any,
    /// Only a property was read that promises do not have.
    Property,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) count: u32,
    pub(crate) at: usize,
}

#[derive(Clone, Debug)]
struct Alias {
    root: String,
    path: Vec<String>,
    via: Vec<Name>,
}

#[derive(Debug)]
struct Frame {
    id: Option<usize>,
    conditional: bool,
    /// A return may have ended the function before here.
    exited: bool,
    is_async: bool,
    /// An immediately invoked function: its calls belong to the function around it.
    inline: bool,
}

/// A call of a plain name as a statement: `main();`
#[derive(Debug)]
pub(crate) struct DiscardedCall {
    pub(crate) name: Option<Name>,
    pub(crate) at: usize,
}

#[derive(Default, Debug)]
pub(crate) struct Walk {
    pub(crate) calls: Vec<RawCall>,
    pub(crate) bindings: HashMap<Name, Binding>,
    pub(crate) uses: Vec<(Name, usize, Use)>,
    /// Returns at the top level of the program.
    pub(crate) returns: Vec<usize>,
    /// Functions that return a value somewhere.
    pub(crate) returning: Vec<usize>,
    pub(crate) decorators: Vec<(usize, String)>,
    pub(crate) import_meta: Option<usize>,
    /// Dynamic imports: place, module, whether they are surely reached.
    pub(crate) imports: Vec<(usize, Option<String>, Option<usize>, bool)>,
    pub(crate) discarded: Vec<DiscardedCall>,
    /// Empty templates that are tagged or tag another: a Markdown fence looks like that.
    pub(crate) empty_templates: Vec<usize>,
    /// `forEach` with an async callback.
    pub(crate) for_each: Vec<usize>,
    pub(crate) prints: bool,
    pub(crate) awaits_at_top: bool,
    /// Parameters called like a root: the function and the place of the binding.
    pub(crate) root_parameters: Vec<(usize, usize)>,
    aliases: HashMap<Name, Alias>,
    /// The function whose parameters are being visited.
    parameters_of: Option<usize>,
    frames: Vec<Frame>,
    usage: Option<Usage>,
    /// The expression statement whose value is the result.
    result_at: Option<usize>,
}

/// Walks a program. `result` is the start of the trailing expression statement, if there is one.
pub(crate) fn walk(module: &Module, result: Option<usize>) -> Walk {
    let top = Frame {
        id: None,
        conditional: false,
        exited: false,
        is_async: true,
        inline: false,
    };
    let mut walk = Walk {
        frames: vec![top],
        result_at: result,
        ..Walk::default()
    };
    for item in &module.body {
        item.visit_with(&mut walk);
    }
    walk
}

impl Walk {
    pub(crate) fn bound_once(&self, name: &str) -> bool {
        self.bindings.get(name).is_none_or(|binding| binding.count == 1)
    }

    fn frame(&mut self) -> &mut Frame {
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    fn owner(&self) -> Option<usize> {
        self.frames.last().and_then(|frame| frame.id)
    }

    fn bind(&mut self, name: &str, at: BytePos) {
        let at = offset(at);
        if let Some(function) = self.parameters_of
            && ROOTS.contains(&name)
        {
            self.root_parameters.push((function, at));
        }
        self.bindings
            .entry(name.to_owned())
            .and_modify(|binding| binding.count += 1)
            .or_insert(Binding { count: 1, at });
    }

    fn uses(&mut self, ident: &Ident, how: Use) {
        self.uses
            .push((ident.sym.to_string(), offset(ident.span.lo), how));
    }

    fn visit_as(&mut self, expr: &Expr, usage: Usage) {
        self.usage = Some(usage);
        self.visit_expr(expr);
        self.usage = None;
    }

    fn conditionally(&mut self, inner: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.frame().conditional, true);
        inner(self);
        self.frame().conditional = before;
    }

    fn in_function(&mut self, at: usize, is_async: bool, inner: impl FnOnce(&mut Self)) {
        self.frames.push(Frame {
            id: Some(at),
            conditional: false,
            exited: false,
            is_async,
            inline: false,
        });
        inner(self);
        self.frames.pop();
    }

    fn in_called_function(&mut self, is_async: bool, inner: impl FnOnce(&mut Self)) {
        let outer = self.frame();
        let (id, conditional) = (outer.id, outer.conditional || outer.exited);
        self.frames.push(Frame {
            id,
            conditional,
            exited: false,
            is_async,
            inline: true,
        });
        inner(self);
        self.frames.pop();
    }

    fn function_parts(&mut self, function: &Function) {
        self.note_decorators(&function.decorators);
        for param in &function.params {
            self.note_decorators(&param.decorators);
            self.parameter(offset(function.span.lo), &param.pat);
        }
        if let Some(body) = &function.body {
            body.visit_with(self);
        }
    }

    fn arrow_parts(&mut self, arrow: &ArrowExpr, id: Option<usize>) {
        for param in &arrow.params {
            self.parameter(offset(arrow.span.lo), param);
        }
        match &*arrow.body {
            ArrowFunctionBody::FunctionBody(body) => body.visit_with(self),
            ArrowFunctionBody::Expr(expr) => {
                self.returning.extend(id);
                self.visit_result(expr);
            }
        }
    }

    fn parameter(&mut self, function: usize, pat: &Pat) {
        self.parameters_of = Some(function);
        self.visit_pat(pat);
        self.parameters_of = None;
    }

    /// Visits an expression that a function or the program returns.
    fn visit_result(&mut self, expr: &Expr) {
        match peel(expr) {
            Expr::Object(_) | Expr::Array(_) => self.visit_parts(peel(expr), &Usage::InResult),
            _ => self.visit_as(expr, Usage::Returned),
        }
    }

    /// Visits the values inside an object or array literal, however deep, as parts of one JSON value.
    fn visit_parts(&mut self, expr: &Expr, usage: &Usage) {
        match peel(expr) {
            Expr::Object(object) => {
                for prop in &object.props {
                    match prop {
                        PropOrSpread::Prop(prop) => match &**prop {
                            Prop::KeyValue(pair) => {
                                pair.key.visit_with(self);
                                self.visit_parts(&pair.value, usage);
                            }
                            other => other.visit_with(self),
                        },
                        PropOrSpread::Spread(spread) => self.visit_as(&spread.expr, Usage::Value),
                    }
                }
            }
            Expr::Array(array) => {
                for item in array.elems.iter().flatten() {
                    if item.spread.is_some() {
                        self.visit_as(&item.expr, Usage::Value);
                    } else {
                        self.visit_parts(&item.expr, usage);
                    }
                }
            }
            _ => self.visit_as(expr, usage.clone()),
        }
    }

    fn note_decorators(&mut self, decorators: &[Decorator]) {
        for decorator in decorators {
            let expr = match peel(&decorator.expr) {
                Expr::Call(call) => match &call.callee {
                    Callee::Expr(callee) => peel(callee),
                    _ => continue,
                },
                expr => expr,
            };
            let name = match path_of(expr) {
                Some(found) => std::iter::once(found.root)
                    .chain(found.path)
                    .collect::<Vec<_>>()
                    .join("."),
                None => "…".to_owned(),
            };
            self.decorators.push((offset(decorator.span.lo), name));
        }
    }

    fn call(&mut self, callee: &Expr, args: &[ExprOrSpread], at: BytePos, optional: bool, usage: Usage) {
        let target = path_of(callee);
        let tool = target.as_ref().and_then(|found| self.tool(found));
        if let Some((root, path, via)) = tool {
            self.tool_call(
                (root, path, via),
                args,
                at,
                optional || target.is_some_and(|t| t.optional),
                usage,
            );
            self.visit_as(callee, Usage::Value);
            for arg in args {
                if arg.spread.is_some() {
                    self.visit_as(&arg.expr, Usage::Value);
                } else {
                    self.visit_parts(&arg.expr, &Usage::InArgument);
                }
            }
            return;
        }
        match peel(callee) {
            Expr::Arrow(arrow) => {
                if usage == Usage::Discarded && arrow.is_async {
                    self.note_discarded(None, at);
                }
                self.in_called_function(arrow.is_async, |walk| walk.arrow_parts(arrow, None));
                self.args(args);
                return;
            }
            Expr::Fn(function) if !function.function.is_generator => {
                if usage == Usage::Discarded && function.function.is_async {
                    self.note_discarded(None, at);
                }
                if let Some(ident) = &function.ident {
                    self.bind(&ident.sym, ident.span.lo);
                }
                let is_async = function.function.is_async;
                self.in_called_function(is_async, |walk| walk.function_parts(&function.function));
                self.args(args);
                return;
            }
            Expr::Ident(ident) if usage == Usage::Discarded => {
                self.note_discarded(Some(ident.sym.to_string()), at)
            }
            _ => {}
        }
        self.visit_as(callee, Usage::Value);
        let path = target.map(|found| (found.root, found.path));
        let method = path
            .as_ref()
            .map(|(root, path)| (root.as_str(), path.last().map(String::as_str)));
        match method {
            Some(("console", Some(_))) => {
                self.prints = true;
                self.args_as(args, &Usage::Operand("printed"));
            }
            Some(("JSON", Some("stringify"))) => self.args_as(args, &Usage::Operand("turned into JSON")),
            Some(("Promise", Some("all"))) if matches!(usage, Usage::Awaited | Usage::Returned) => {
                self.promise_list(args);
            }
            _ => {
                if property_of(callee).as_deref() == Some("forEach") {
                    self.for_each_callback(args, at);
                }
                self.args(args);
            }
        }
    }

    fn args(&mut self, args: &[ExprOrSpread]) {
        self.args_as(args, &Usage::Value);
    }

    fn args_as(&mut self, args: &[ExprOrSpread], usage: &Usage) {
        for arg in args {
            let usage = if arg.spread.is_some() {
                Usage::Value
            } else {
                usage.clone()
            };
            self.visit_as(&arg.expr, usage);
        }
    }

    /// `await Promise.all([a(), b()])` waits for each element of the list.
    fn promise_list(&mut self, args: &[ExprOrSpread]) {
        match args {
            [ExprOrSpread { spread: None, expr }] if matches!(peel(expr), Expr::Array(_)) => {
                if let Expr::Array(array) = peel(expr) {
                    for item in array.elems.iter().flatten() {
                        let usage = if item.spread.is_some() {
                            Usage::Value
                        } else {
                            Usage::Awaited
                        };
                        self.visit_as(&item.expr, usage);
                    }
                }
            }
            _ => self.args(args),
        }
    }

    fn for_each_callback(&mut self, args: &[ExprOrSpread], at: BytePos) {
        let is_async = args.first().is_some_and(|arg| match peel(&arg.expr) {
            Expr::Arrow(arrow) => arrow.is_async,
            Expr::Fn(function) => function.function.is_async,
            _ => false,
        });
        if is_async {
            self.for_each.push(offset(at));
        }
    }

    fn note_empty(&mut self, template: &Tpl) {
        if template.exprs.is_empty() && template.quasis.iter().all(|text| text.raw.is_empty()) {
            self.empty_templates.push(offset(template.span.lo));
        }
    }

    fn note_discarded(&mut self, name: Option<Name>, at: BytePos) {
        self.discarded.push(DiscardedCall { name, at: offset(at) });
    }

    fn tool_call(
        &mut self,
        (root, mut path, via): (String, Vec<String>, Vec<Name>),
        args: &[ExprOrSpread],
        at: BytePos,
        mut optional: bool,
        usage: Usage,
    ) {
        if self.calls.len() >= MAX_CALLS {
            return;
        }
        let mut argument = args.first().map(|arg| match arg.spread {
            None => Literal::of(&arg.expr),
            Some(_) => Literal::Unknown,
        });
        let mut argument_count = args.iter().all(|arg| arg.spread.is_none()).then_some(args.len());
        if path.len() > 1 && matches!(path.last().map(String::as_str), Some("call" | "apply" | "bind")) {
            // `tools.x.call(…)`: the arguments are not where they usually are.
            path.pop();
            (argument, argument_count, optional) = (Some(Literal::Unknown), None, true);
        }
        let frame = self.frame();
        let (owner, reached, in_async) = (frame.id, !frame.conditional && !frame.exited, frame.is_async);
        let at = offset(at);
        self.calls.push(RawCall {
            root,
            path,
            via,
            at,
            owner,
            reached,
            optional,
            in_async,
            usage,
            argument,
            argument_count,
        });
    }

    /// Returns the path of a tool if the expression can name one.
    fn tool(&self, found: &Path) -> Option<(String, Vec<String>, Vec<Name>)> {
        if ROOTS.contains(&found.root.as_str()) {
            return (!found.path.is_empty()).then(|| (found.root.clone(), found.path.clone(), Vec::new()));
        }
        let alias = self.aliases.get(&found.root)?;
        let path: Vec<_> = alias.path.iter().chain(&found.path).cloned().collect();
        let via = alias.via.iter().cloned().chain([found.root.clone()]).collect();
        // `then` on a taken-out tool is not a tool.
        (!path.is_empty()).then(|| (alias.root.clone(), path, via))
    }

    fn declarator(&mut self, declarator: &VarDeclarator) {
        if let Some(init) = &declarator.init {
            self.note_alias(&declarator.name, init);
        }
        self.visit_pat(&declarator.name);
        let Some(init) = &declarator.init else { return };
        let usage = match &declarator.name {
            Pat::Ident(ident) => Usage::Stored(ident.sym.to_string()),
            Pat::Object(_) | Pat::Array(_) => Usage::Destructured,
            _ => Usage::Value,
        };
        self.visit_as(init, usage);
    }

    fn note_alias(&mut self, pat: &Pat, init: &Expr) {
        let Some(found) = path_of(init) else { return };
        if found.optional {
            return;
        }
        let base = if ROOTS.contains(&found.root.as_str()) {
            Alias {
                root: found.root,
                path: found.path,
                via: Vec::new(),
            }
        } else if let Some(alias) = self.aliases.get(&found.root) {
            let mut base = alias.clone();
            base.path.extend(found.path);
            base.via.push(found.root);
            base
        } else {
            return;
        };
        match pat {
            Pat::Ident(ident) => {
                self.aliases.insert(ident.sym.to_string(), base);
            }
            Pat::Object(object) => {
                for prop in &object.props {
                    let (key, name) = match prop {
                        ObjectPatProp::Assign(AssignPatProp { key, value: None, .. }) => {
                            (Some(key.sym.to_string()), key.sym.to_string())
                        }
                        ObjectPatProp::KeyValue(pair) => match &*pair.value {
                            Pat::Ident(ident) => (key_text(&pair.key), ident.sym.to_string()),
                            _ => continue,
                        },
                        _ => continue,
                    };
                    let Some(key) = key else { continue };
                    let mut alias = base.clone();
                    alias.path.push(key);
                    self.aliases.insert(name, alias);
                }
            }
            _ => {}
        }
    }

    fn member(&mut self, object: &Expr, prop: &MemberProp, usage_of_object: impl FnOnce(String) -> Usage) {
        let name = match prop {
            MemberProp::Ident(name) => Some(name.sym.to_string()),
            MemberProp::Computed(computed) => {
                self.visit_as(&computed.expr, Usage::Value);
                string_of(&computed.expr).or_else(|| Some("…".to_owned()))
            }
            MemberProp::PrivateName(_) => None,
        };
        let promise = name
            .as_deref()
            .is_none_or(|name| matches!(name, "then" | "catch" | "finally" | "…"));
        match (peel(object), name) {
            (Expr::Ident(ident), _) => self.uses(ident, if promise { Use::Any } else { Use::Property }),
            (_, Some(name)) if !promise => self.visit_as(object, usage_of_object(name)),
            _ => self.visit_as(object, Usage::Value),
        }
    }

    fn class_parts(&mut self, class: &Class) {
        self.note_decorators(&class.decorators);
        if let Some(parent) = &class.super_class {
            self.visit_as(parent, Usage::Value);
        }
        for member in &class.body {
            let at = offset(member.span().lo);
            match member {
                ClassMember::Constructor(constructor) => self.in_function(at, false, |walk| {
                    for param in &constructor.params {
                        match param {
                            ParamOrTsParamProp::Param(param) => {
                                walk.note_decorators(&param.decorators);
                                walk.visit_pat(&param.pat);
                            }
                            ParamOrTsParamProp::TsParamProp(property) => {
                                walk.note_decorators(&property.decorators);
                                property.param.visit_with(walk);
                            }
                        }
                    }
                    if let Some(body) = &constructor.body {
                        body.visit_with(walk);
                    }
                }),
                ClassMember::Method(method) => {
                    self.note_decorators(&method.function.decorators);
                    self.visit_prop_name(&method.key);
                    let is_async = method.function.is_async;
                    self.in_function(at, is_async, |walk| walk.function_parts(&method.function));
                }
                ClassMember::PrivateMethod(method) => {
                    let is_async = method.function.is_async;
                    self.in_function(at, is_async, |walk| walk.function_parts(&method.function));
                }
                ClassMember::ClassProp(prop) => {
                    self.note_decorators(&prop.decorators);
                    self.visit_prop_name(&prop.key);
                    self.field(at, prop.value.as_deref());
                }
                ClassMember::PrivateProp(prop) => {
                    self.note_decorators(&prop.decorators);
                    self.field(at, prop.value.as_deref());
                }
                ClassMember::AutoAccessor(accessor) => {
                    self.note_decorators(&accessor.decorators);
                    self.field(at, accessor.value.as_deref());
                }
                ClassMember::StaticBlock(block) => {
                    self.in_function(at, false, |walk| block.body.visit_with(walk))
                }
                ClassMember::TsIndexSignature(_) | ClassMember::Empty(_) => {}
            }
        }
    }

    fn field(&mut self, at: usize, value: Option<&Expr>) {
        if let Some(value) = value {
            self.in_function(at, false, |walk| walk.visit_as(value, Usage::Value));
        }
    }
}

struct Path {
    root: String,
    path: Vec<String>,
    optional: bool,
}

/// Reads `a.b["c"]` as a path. What the program computes is no path.
fn path_of(expr: &Expr) -> Option<Path> {
    let mut path = Vec::new();
    let mut optional = false;
    let mut expr = peel(expr);
    let root = loop {
        let member = match expr {
            Expr::Ident(ident) => break ident.sym.to_string(),
            // `tools` is no promise, and awaiting it gives it back.
            Expr::Await(awaited) if !path.is_empty() || matches!(peel(&awaited.arg), Expr::Ident(_)) => {
                expr = peel(&awaited.arg);
                continue;
            }
            Expr::Member(member) => member,
            Expr::OptChain(chain) => match &*chain.base {
                OptChainBase::Member(member) => {
                    optional |= chain.optional;
                    member
                }
                OptChainBase::Call(_) => return None,
            },
            _ => return None,
        };
        match &member.prop {
            MemberProp::Ident(name) => path.push(name.sym.to_string()),
            MemberProp::Computed(computed) => path.push(string_of(&computed.expr)?),
            MemberProp::PrivateName(_) => return None,
        }
        expr = peel(&member.obj);
    };
    path.reverse();
    Some(Path { root, path, optional })
}

fn property_of(expr: &Expr) -> Option<String> {
    match peel(expr) {
        Expr::Member(MemberExpr {
            prop: MemberProp::Ident(name),
            ..
        }) => Some(name.sym.to_string()),
        Expr::OptChain(chain) => match &*chain.base {
            OptChainBase::Member(MemberExpr {
                prop: MemberProp::Ident(name),
                ..
            }) => Some(name.sym.to_string()),
            _ => None,
        },
        _ => None,
    }
}

impl Visit for Walk {
    fn visit_expr(&mut self, expr: &Expr) {
        let usage = self.usage.take().unwrap_or(Usage::Value);
        match expr {
            Expr::Paren(_)
            | Expr::TsAs(_)
            | Expr::TsNonNull(_)
            | Expr::TsConstAssertion(_)
            | Expr::TsSatisfies(_)
            | Expr::TsTypeAssertion(_)
            | Expr::TsInstantiation(_) => self.visit_as(peel(expr), usage),
            Expr::Ident(ident) => self.uses(ident, Use::Any),
            Expr::Await(awaited) => {
                self.awaits_at_top |= self.owner().is_none();
                self.visit_as(&awaited.arg, Usage::Awaited);
            }
            Expr::Call(call) => match &call.callee {
                Callee::Expr(callee) => self.call(callee, &call.args, call.span.lo, false, usage),
                Callee::Import(_) => {
                    let frame = self.frame();
                    let (owner, reached) = (frame.id, !frame.conditional && !frame.exited);
                    let module = call.args.first().and_then(|arg| string_of(&arg.expr));
                    self.imports.push((offset(call.span.lo), module, owner, reached));
                    self.args(&call.args);
                }
                Callee::Super(_) => self.args(&call.args),
            },
            Expr::OptChain(chain) => match &*chain.base {
                OptChainBase::Call(call) => self.call(&call.callee, &call.args, call.span.lo, true, usage),
                OptChainBase::Member(member) => self.member(&member.obj, &member.prop, Usage::Property),
            },
            Expr::Member(member) => self.member(&member.obj, &member.prop, Usage::Property),
            Expr::Cond(cond) => {
                self.visit_as(&cond.test, Usage::Operand("tested"));
                self.conditionally(|walk| {
                    walk.visit_as(&cond.cons, usage.clone());
                    walk.visit_as(&cond.alt, usage);
                });
            }
            Expr::Seq(seq) => {
                if let Some((last, before)) = seq.exprs.split_last() {
                    for expr in before {
                        self.visit_as(expr, Usage::Discarded);
                    }
                    self.visit_as(last, usage);
                }
            }
            Expr::Bin(bin) => match bin.op {
                BinaryOp::LogicalAnd | BinaryOp::LogicalOr | BinaryOp::NullishCoalescing => {
                    self.visit_as(&bin.left, Usage::Value);
                    self.conditionally(|walk| walk.visit_as(&bin.right, usage));
                }
                BinaryOp::In | BinaryOp::InstanceOf => {
                    self.visit_as(&bin.left, Usage::Value);
                    self.visit_as(&bin.right, Usage::Value);
                }
                _ => {
                    self.visit_as(&bin.left, Usage::Operand("used as an operand"));
                    self.visit_as(&bin.right, Usage::Operand("used as an operand"));
                }
            },
            Expr::Unary(unary) => {
                let usage = match unary.op {
                    UnaryOp::Void => Usage::Voided,
                    UnaryOp::TypeOf | UnaryOp::Delete => Usage::Value,
                    _ => Usage::Operand("used as an operand"),
                };
                self.visit_as(&unary.arg, usage);
            }
            Expr::Tpl(template) => {
                for part in &template.exprs {
                    self.visit_as(part, Usage::Operand("put into a string"));
                }
            }
            Expr::TaggedTpl(tagged) => {
                self.note_empty(&tagged.tpl);
                if let Expr::Tpl(template) = &*tagged.tag {
                    self.note_empty(template);
                }
                expr.visit_children_with(self);
            }
            Expr::Arrow(arrow) => {
                let at = offset(arrow.span.lo);
                self.in_function(at, arrow.is_async, |walk| walk.arrow_parts(arrow, Some(at)));
            }
            Expr::Fn(function) => {
                if let Some(ident) = &function.ident {
                    self.bind(&ident.sym, ident.span.lo);
                }
                let at = offset(function.function.span.lo);
                let is_async = function.function.is_async;
                self.in_function(at, is_async, |walk| walk.function_parts(&function.function));
            }
            Expr::Class(class) => {
                if let Some(ident) = &class.ident {
                    self.bind(&ident.sym, ident.span.lo);
                }
                self.class_parts(&class.class);
            }
            Expr::MetaProp(meta) if meta.kind == MetaPropKind::ImportMeta => {
                self.import_meta.get_or_insert(offset(meta.span.lo));
            }
            _ => expr.visit_children_with(self),
        }
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        self.usage = None;
        match stmt {
            Stmt::Expr(statement) => {
                if self.frames.len() == 1 && self.result_at == Some(offset(statement.span.lo)) {
                    self.visit_result(&statement.expr);
                } else {
                    self.visit_as(&statement.expr, Usage::Discarded);
                }
            }
            Stmt::Return(statement) => {
                let at = offset(statement.span.lo);
                let (id, inline) = (self.frame().id, self.frame().inline);
                if id.is_none() && !inline {
                    self.returns.push(at);
                }
                if let Some(value) = &statement.arg {
                    if !inline {
                        self.returning.extend(id);
                    }
                    self.visit_result(value);
                }
                self.frame().exited = true;
            }
            Stmt::Throw(statement) => {
                self.visit_as(&statement.arg, Usage::Value);
                if !self.frame().conditional {
                    self.frame().exited = true;
                }
            }
            Stmt::If(statement) => {
                self.visit_as(&statement.test, Usage::Operand("tested"));
                self.conditionally(|walk| {
                    walk.visit_stmt(&statement.cons);
                    if let Some(alt) = &statement.alt {
                        walk.visit_stmt(alt);
                    }
                });
            }
            Stmt::While(statement) => {
                self.visit_as(&statement.test, Usage::Operand("tested"));
                self.conditionally(|walk| walk.visit_stmt(&statement.body));
            }
            Stmt::ForOf(statement) => {
                let usage = if statement.is_await {
                    Usage::Value
                } else {
                    Usage::Operand("iterated over")
                };
                self.visit_as(&statement.right, usage);
                self.conditionally(|walk| {
                    statement.left.visit_with(walk);
                    walk.visit_stmt(&statement.body);
                });
            }
            Stmt::Switch(statement) => {
                self.visit_as(&statement.discriminant, Usage::Operand("tested"));
                self.conditionally(|walk| statement.cases.visit_with(walk));
            }
            Stmt::DoWhile(_) | Stmt::For(_) | Stmt::ForIn(_) | Stmt::Try(_) | Stmt::Labeled(_) => {
                self.conditionally(|walk| stmt.visit_children_with(walk));
            }
            _ => stmt.visit_children_with(self),
        }
    }

    fn visit_var_decl(&mut self, decl: &VarDecl) {
        if !decl.declare {
            for declarator in &decl.decls {
                self.declarator(declarator);
            }
        }
    }

    fn visit_using_decl(&mut self, decl: &UsingDecl) {
        for declarator in &decl.decls {
            self.declarator(declarator);
        }
    }

    fn visit_assign_expr(&mut self, assign: &AssignExpr) {
        assign.left.visit_with(self);
        let usage = match (&assign.left, assign.op) {
            (_, op) if op != AssignOp::Assign => Usage::Value,
            (AssignTarget::Pat(_), _) => Usage::Destructured,
            _ => Usage::Value,
        };
        self.visit_as(&assign.right, usage);
    }

    fn visit_fn_decl(&mut self, decl: &FnDecl) {
        if decl.declare || decl.function.body.is_none() {
            return;
        }
        self.bind(&decl.ident.sym, decl.ident.span.lo);
        let at = offset(decl.function.span.lo);
        let is_async = decl.function.is_async;
        self.in_function(at, is_async, |walk| walk.function_parts(&decl.function));
    }

    /// Functions and classes that are exported as default; as expressions they never get here.
    fn visit_fn_expr(&mut self, function: &FnExpr) {
        if let Some(ident) = &function.ident {
            self.bind(&ident.sym, ident.span.lo);
        }
        self.visit_function(&function.function);
    }

    fn visit_class_expr(&mut self, class: &ClassExpr) {
        if let Some(ident) = &class.ident {
            self.bind(&ident.sym, ident.span.lo);
        }
        self.class_parts(&class.class);
    }

    fn visit_export_default_expr(&mut self, export: &ExportDefaultExpr) {
        self.visit_result(&export.expr);
    }

    fn visit_class_decl(&mut self, decl: &ClassDecl) {
        if !decl.declare {
            self.bind(&decl.ident.sym, decl.ident.span.lo);
            self.class_parts(&decl.class);
        }
    }

    /// Methods, getters and setters of object literals.
    fn visit_function(&mut self, function: &Function) {
        let at = offset(function.span.lo);
        self.in_function(at, function.is_async, |walk| walk.function_parts(function));
    }

    fn visit_binding_ident(&mut self, ident: &BindingIdent) {
        self.bind(&ident.sym, ident.span.lo);
    }

    fn visit_ident(&mut self, ident: &Ident) {
        self.uses(ident, Use::Any);
    }

    fn visit_ts_enum_decl(&mut self, decl: &TsEnumDecl) {
        if !decl.declare {
            self.bind(&decl.id.sym, decl.id.span.lo);
            for member in &decl.members {
                if let Some(init) = &member.init {
                    self.visit_as(init, Usage::Value);
                }
            }
        }
    }

    fn visit_ts_module_decl(&mut self, decl: &TsModuleDecl) {
        if decl.declare {
            return;
        }
        if let TsModuleName::Ident(ident) = &decl.id {
            self.bind(&ident.sym, ident.span.lo);
        }
        let at = offset(decl.span.lo);
        self.in_function(at, false, |walk| decl.body.visit_with(walk));
    }

    fn visit_import_decl(&mut self, _: &ImportDecl) {}
    fn visit_named_export(&mut self, _: &NamedExport) {}
    fn visit_export_all(&mut self, _: &ExportAll) {}
    fn visit_ts_import_equals_decl(&mut self, decl: &TsImportEqualsDecl) {
        self.bind(&decl.id.sym, decl.id.span.lo);
    }

    // Types never run.
    fn visit_ts_type(&mut self, _: &TsType) {}
    fn visit_ts_type_ann(&mut self, _: &TsTypeAnn) {}
    fn visit_ts_type_param_decl(&mut self, _: &TsTypeParamDecl) {}
    fn visit_ts_type_param_instantiation(&mut self, _: &TsTypeParamInstantiation) {}
    fn visit_ts_interface_decl(&mut self, _: &TsInterfaceDecl) {}
    fn visit_ts_type_alias_decl(&mut self, _: &TsTypeAliasDecl) {}
    fn visit_ts_expr_with_type_args(&mut self, _: &TsExprWithTypeArgs) {}
}
