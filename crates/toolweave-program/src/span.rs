//! Parts of a program whose failures it deals with itself. Judges nothing else.

use swc_common::Span as Place;
use swc_ecma_ast::{BlockStmt, CallExpr, Callee, Expr, MemberProp, TryStmt};
use swc_ecma_visit::{Visit, VisitWith};

use crate::parse::{offset, parse};
use crate::position::Lines;

/// A part of a text. Lines and columns count from 1, columns in UTF-16 units; the end is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Line and column of the first character.
    pub start: (u32, u32),
    /// Line and column behind the last character.
    pub end: (u32, u32),
}

impl Span {
    /// Says whether a place is in this part.
    pub fn contains(&self, line: u32, column: u32) -> bool {
        (self.start..self.end).contains(&(line, column))
    }
}

/// Returns what is tried, and promises with a handler for their failure.
pub(crate) fn handled(body: &str) -> Vec<Span> {
    let Ok(parsed) = parse(body) else {
        return Vec::new();
    };
    let mut found = Handled(Vec::new());
    parsed.module.visit_with(&mut found);
    let lines = Lines::new(body);
    let span = |place: &Place| Span {
        start: lines.position(body, offset(place.lo)),
        end: lines.position(body, offset(place.hi)),
    };
    found.0.iter().map(span).collect()
}

struct Handled(Vec<Place>);

impl Visit for Handled {
    fn visit_try_stmt(&mut self, node: &TryStmt) {
        let BlockStmt { span, .. } = node.block;
        if node.handler.is_some() {
            self.0.push(span);
        }
        node.visit_children_with(self);
    }

    fn visit_call_expr(&mut self, node: &CallExpr) {
        if let Callee::Expr(callee) = &node.callee
            && let Expr::Member(member) = &**callee
            && let MemberProp::Ident(name) = &member.prop
        {
            let handles = match &*name.sym {
                "catch" => !node.args.is_empty(),
                "then" => node.args.len() > 1,
                _ => false,
            };
            if handles {
                self.0.push(Place::new(node.span.lo, name.span.lo));
            }
            let waits = matches!(&*name.sym, "allSettled" | "any");
            if waits && matches!(&*member.obj, Expr::Ident(object) if object.sym == "Promise") {
                self.0.push(node.span);
            }
        }
        node.visit_children_with(self);
    }
}
