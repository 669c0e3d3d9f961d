//! Evaluates HCL expressions to trees that know their places.
//!
//! What a module's own folder can say is understood: literals, `var` and `local`, templates, arithmetic, conditionals,
//! `for`, and a handful of functions. Anything else is trouble with a place, and only the value it stands in is lost.

mod functions;
mod template;

use std::cell::{Cell, RefCell};

use hcl_edit::Span as _;
use hcl_edit::expr::{
    BinaryOperator, Expression, ForExpr, ObjectKey, Traversal, TraversalOperator, UnaryOperator,
};
use model::diagnostic::Span;
use model::load::{Scalar, Tree};

use super::folder::Folder;
use super::notes::Trouble;
use super::types;

pub(super) use functions::FILE;

/// No input is worth more steps than this; more is a trap. A value counts by its size wherever it is made or handed on.
const MAX_STEPS: usize = 4_000_000;

/// No input refers on and on further than this.
const MAX_REFERENCES: usize = 64;

pub(super) type Outcome = Result<Tree, Trouble>;

/// Evaluates expressions of a folder.
pub(super) struct Evaluator<'f> {
    pub(super) folder: &'f Folder<'f>,
    /// Troubles inside lists and mappings, which go on without the value.
    pub(super) troubles: RefCell<Vec<Trouble>>,
    visiting: RefCell<Vec<String>>,
    steps: Cell<usize>,
}

/// Names that a `for` gives, the innermost first.
#[derive(Clone, Copy)]
pub(super) enum Scope<'a> {
    Empty,
    With { name: &'a str, value: &'a Tree, rest: &'a Scope<'a> },
}

impl Scope<'_> {
    fn get(&self, wanted: &str) -> Option<&Tree> {
        match self {
            Self::Empty => None,
            Self::With { name, value, .. } if *name == wanted => Some(value),
            Self::With { rest, .. } => rest.get(wanted),
        }
    }
}

impl<'f> Evaluator<'f> {
    pub(super) fn new(folder: &'f Folder<'f>) -> Self {
        Self { folder, troubles: RefCell::default(), visiting: RefCell::default(), steps: Cell::new(0) }
    }

    /// The value of an expression; trouble is kept, the value is then missing, and the rest goes on.
    pub(super) fn value(&self, source: usize, expr: &Expression) -> Option<Tree> {
        self.value_in(source, expr, &Scope::Empty)
    }

    /// The same, where names are given.
    pub(super) fn value_in(&self, source: usize, expr: &Expression, scope: &Scope<'_>) -> Option<Tree> {
        match self.eval(source, expr, scope) {
            Ok(tree) => Some(tree),
            Err(trouble) => {
                self.troubles.borrow_mut().push(trouble);
                None
            }
        }
    }

    pub(super) fn eval(&self, source: usize, expr: &Expression, scope: &Scope<'_>) -> Outcome {
        let range = expr.span().unwrap_or(0..0);
        let span = Span { source, start: range.start, end: range.end };
        let spend = |steps: usize| {
            self.steps.set(self.steps.get().saturating_add(steps));
            match self.steps.get() > MAX_STEPS {
                true => Err(Trouble { span, why: "there is too much to evaluate".to_owned() }),
                false => Ok(()),
            }
        };
        spend(1)?;
        let value = self.compute(source, span, expr, scope)?;
        spend(weight(&value))?;
        Ok(value)
    }

    fn compute(&self, source: usize, span: Span, expr: &Expression, scope: &Scope<'_>) -> Outcome {
        let trouble = |why: &str| Err(Trouble { span, why: why.to_owned() });
        match expr {
            Expression::Null(_) => Ok(scalar(span, Scalar::Null, "null")),
            Expression::Bool(value) => Ok(boolean(span, *value.value())),
            Expression::Number(value) => Ok(number(span, &value.value().to_string())),
            Expression::String(value) => Ok(text(span, value.value())),
            Expression::Array(items) => {
                let items = items.iter().filter_map(|item| self.value_in(source, item, scope));
                Ok(Tree::List { span, items: items.collect() })
            }
            Expression::Object(object) => {
                let mut entries: Vec<(String, Span, Tree)> = Vec::new();
                for (key, value) in object.iter() {
                    let (key, key_span) = self.key(source, key, scope)?;
                    if let Some(value) = self.value_in(source, value.expr(), scope) {
                        put(&mut entries, key, key_span, value);
                    }
                }
                Ok(Tree::Map { span, entries })
            }
            Expression::StringTemplate(parts) => template::eval(self, source, span, parts.iter(), scope),
            Expression::HeredocTemplate(heredoc) => {
                let mut heredoc = heredoc.clone();
                if heredoc.indent().is_some() {
                    heredoc.dedent();
                }
                template::eval(self, source, span, heredoc.template.iter(), scope)
            }
            Expression::Parenthesis(inner) => self.eval(source, inner.inner(), scope),
            Expression::Variable(name) => match scope.get(name.as_str()) {
                Some(value) => Ok(value.clone()),
                None => trouble(&format!("`{}` is not known here", name.as_str())),
            },
            Expression::Conditional(conditional) => {
                match truth(&self.eval(source, &conditional.cond_expr, scope)?) {
                    Some(true) => self.eval(source, &conditional.true_expr, scope),
                    Some(false) => self.eval(source, &conditional.false_expr, scope),
                    None => trouble("the condition is neither true nor false"),
                }
            }
            Expression::FuncCall(call) => functions::call(self, source, span, call, scope),
            Expression::Traversal(traversal) => self.traversal(source, span, traversal, scope),
            Expression::UnaryOp(operation) => {
                let value = self.eval(source, &operation.expr, scope)?;
                match (operation.operator.value(), truth(&value), numeric(&value)) {
                    (UnaryOperator::Not, Some(value), _) => Ok(boolean(span, !value)),
                    (UnaryOperator::Neg, _, Some(value)) => Ok(float(span, -value)),
                    _ => trouble("this operator does not fit its value"),
                }
            }
            Expression::BinaryOp(operation) => {
                let left = self.eval(source, &operation.lhs_expr, scope)?;
                let right = self.eval(source, &operation.rhs_expr, scope)?;
                binary(span, *operation.operator.value(), &left, &right)
                    .map_or_else(|| trouble("this operator does not fit its values"), Ok)
            }
            Expression::ForExpr(each) => self.each(source, span, each, scope),
        }
    }

    fn key(&self, source: usize, key: &ObjectKey, scope: &Scope<'_>) -> Result<(String, Span), Trouble> {
        match key {
            ObjectKey::Ident(name) => {
                let range = name.span().unwrap_or(0..0);
                Ok((name.as_str().to_owned(), Span { source, start: range.start, end: range.end }))
            }
            ObjectKey::Expression(expr) => {
                let value = self.eval(source, expr, scope)?;
                let span = value.span();
                let key = plain(&value).ok_or(Trouble { span, why: "a key must be a text".to_owned() })?;
                Ok((key, span))
            }
        }
    }

    fn traversal(&self, source: usize, span: Span, traversal: &Traversal, scope: &Scope<'_>) -> Outcome {
        let mut operators: Vec<&TraversalOperator> =
            traversal.operators.iter().map(|op| op.value()).collect();
        let root = match &traversal.expr {
            Expression::Variable(name) => Some(name.as_str()),
            _ => None,
        };
        let first = match operators.first() {
            Some(TraversalOperator::GetAttr(name)) => Some(name.as_str()),
            _ => None,
        };
        let start = match (root, first) {
            (Some("path"), Some("module" | "root" | "cwd")) => text(span, "."),
            // Without another one being chosen, this is where everything happens.
            (Some("terraform" | "tofu"), Some("workspace")) => text(span, "default"),
            (Some(kind @ ("var" | "local")), Some(name)) => self.named(span, kind, name)?,
            (Some(name), _) if scope.get(name).is_none() => {
                return Err(Trouble { span, why: "these files do not say what it is".to_owned() });
            }
            _ => {
                return self.walk(
                    source,
                    span,
                    self.eval(source, &traversal.expr, scope)?,
                    &operators,
                    scope,
                );
            }
        };
        operators.remove(0);
        self.walk(source, span, start, &operators, scope)
    }

    /// `var.x` or `local.x`.
    fn named(&self, span: Span, kind: &str, name: &str) -> Outcome {
        let whole = format!("{kind}.{name}");
        let found = if kind == "var" { self.folder.variable(name) } else { self.folder.local(name) };
        let Some((source, expr)) = found else {
            return Err(Trouble { span, why: format!("`{whole}` has no value in these files") });
        };
        if self.visiting.borrow().contains(&whole) {
            return Err(Trouble { span, why: format!("`{whole}` refers to itself") });
        }
        if self.visiting.borrow().len() >= MAX_REFERENCES {
            return Err(Trouble { span, why: "it refers on and on".to_owned() });
        }
        self.visiting.borrow_mut().push(whole);
        let mut value = self.eval(source, expr, &Scope::Empty);
        if let (Ok(value), "var", Some((source, kind))) = (&mut value, kind, self.folder.type_of(name)) {
            types::fill(value, kind, &|expr| self.value(source, expr));
        }
        self.visiting.borrow_mut().pop();
        value
    }

    fn walk(
        &self,
        source: usize,
        span: Span,
        mut value: Tree,
        operators: &[&TraversalOperator],
        scope: &Scope<'_>,
    ) -> Outcome {
        for (done, operator) in operators.iter().enumerate() {
            let key = match operator {
                TraversalOperator::GetAttr(name) => name.as_str().to_owned(),
                TraversalOperator::LegacyIndex(index) => index.value().to_string(),
                TraversalOperator::Index(expr) => {
                    let index = self.eval(source, expr, scope)?;
                    plain(&index)
                        .ok_or(Trouble { span, why: "this index is not a text or number".to_owned() })?
                }
                TraversalOperator::AttrSplat(_) | TraversalOperator::FullSplat(_) => {
                    // What is no list counts as a list of one, and null as none.
                    let (span, items) = match value {
                        Tree::List { span, items } => (span, items),
                        Tree::Scalar { span, value: Scalar::Null, .. } => (span, Vec::new()),
                        one => (one.span(), vec![one]),
                    };
                    let rest = operators.get(done + 1..).unwrap_or_default();
                    let items: Result<Vec<Tree>, Trouble> =
                        items.into_iter().map(|item| self.walk(source, span, item, rest, scope)).collect();
                    return Ok(Tree::List { span, items: items? });
                }
            };
            value = index(value, &key)
                .ok_or_else(|| Trouble { span, why: format!("there is no `{key}` in it") })?;
        }
        Ok(value)
    }

    fn each(&self, source: usize, span: Span, each: &ForExpr, scope: &Scope<'_>) -> Outcome {
        let trouble = |why: &str| Trouble { span, why: why.to_owned() };
        let pairs = pairs(self.eval(source, &each.intro.collection_expr, scope)?)
            .ok_or_else(|| trouble("`for` needs a list or a mapping"))?;
        let key_name = each.intro.key_var.as_ref().map_or("", |name| name.as_str());
        let (mut entries, mut items) = (Vec::new(), Vec::new());
        for (key, value) in pairs {
            let outer = Scope::With { name: each.intro.value_var.as_str(), value: &value, rest: scope };
            let scope = Scope::With { name: key_name, value: &key, rest: &outer };
            if let Some(cond) = &each.cond {
                let kept = truth(&self.eval(source, &cond.expr, &scope)?);
                match kept {
                    Some(true) => {}
                    Some(false) => continue,
                    None => return Err(trouble("the condition of `for` is neither true nor false")),
                }
            }
            let made = self.eval(source, &each.value_expr, &scope)?;
            match &each.key_expr {
                None => items.push(made),
                Some(key) => {
                    let key = self.eval(source, key, &scope)?;
                    let name = plain(&key).ok_or_else(|| trouble("a key must be a text"))?;
                    match each.grouping {
                        false => put(&mut entries, name, key.span(), made),
                        true => group(&mut entries, name, key.span(), made),
                    }
                }
            }
        }
        Ok(match each.key_expr {
            None => Tree::List { span, items },
            Some(_) => Tree::Map { span, entries },
        })
    }
}

pub(super) fn put(entries: &mut Vec<(String, Span, Tree)>, key: String, span: Span, value: Tree) {
    match entries.iter_mut().find(|(known, ..)| *known == key) {
        Some(entry) => *entry = (key, span, value),
        None => entries.push((key, span, value)),
    }
}

/// What several rounds of a `for` give under one key is a list.
fn group(entries: &mut Vec<(String, Span, Tree)>, key: String, span: Span, value: Tree) {
    match entries.iter_mut().find(|(known, ..)| *known == key) {
        Some((.., Tree::List { items, .. })) => items.push(value),
        _ => entries.push((key, span, Tree::List { span, items: vec![value] })),
    }
}

fn index(value: Tree, key: &str) -> Option<Tree> {
    match value {
        Tree::Map { entries, .. } => {
            entries.into_iter().find(|(name, ..)| name == key).map(|(.., value)| value)
        }
        Tree::List { items, .. } => items.into_iter().nth(key.parse().ok()?),
        Tree::Scalar { .. } => None,
    }
}

/// Keys and values, as `for` sees them.
pub(super) fn pairs(value: Tree) -> Option<Vec<(Tree, Tree)>> {
    match value {
        Tree::Map { mut entries, .. } => {
            // OpenTofu goes through a mapping in the order of its keys.
            entries.sort_by(|(a, ..), (b, ..)| a.cmp(b));
            Some(entries.into_iter().map(|(key, span, value)| (text(span, &key), value)).collect())
        }
        Tree::List { items, .. } => {
            let number = |(index, item): (usize, Tree)| (number(item.span(), &index.to_string()), item);
            Some(items.into_iter().enumerate().map(number).collect())
        }
        Tree::Scalar { .. } => None,
    }
}

fn binary(span: Span, operator: BinaryOperator, left: &Tree, right: &Tree) -> Option<Tree> {
    use BinaryOperator as Op;
    let numbers = || Some((numeric(left)?, numeric(right)?));
    let truths = || Some((truth(left)?, truth(right)?));
    Some(match operator {
        Op::Eq => boolean(span, same(left, right)),
        Op::NotEq => boolean(span, !same(left, right)),
        Op::And => truths().map(|(a, b)| boolean(span, a && b))?,
        Op::Or => truths().map(|(a, b)| boolean(span, a || b))?,
        Op::Less => numbers().map(|(a, b)| boolean(span, a < b))?,
        Op::LessEq => numbers().map(|(a, b)| boolean(span, a <= b))?,
        Op::Greater => numbers().map(|(a, b)| boolean(span, a > b))?,
        Op::GreaterEq => numbers().map(|(a, b)| boolean(span, a >= b))?,
        Op::Plus => numbers().map(|(a, b)| float(span, a + b))?,
        Op::Minus => numbers().map(|(a, b)| float(span, a - b))?,
        Op::Mul => numbers().map(|(a, b)| float(span, a * b))?,
        Op::Div => numbers().filter(|(_, b)| *b != 0.0).map(|(a, b)| float(span, a / b))?,
        Op::Mod => numbers().filter(|(_, b)| *b != 0.0).map(|(a, b)| float(span, a % b))?,
    })
}

pub(super) fn same(left: &Tree, right: &Tree) -> bool {
    match (left, right) {
        (Tree::Scalar { value: Scalar::Null, .. }, other)
        | (other, Tree::Scalar { value: Scalar::Null, .. }) => {
            matches!(other, Tree::Scalar { value: Scalar::Null, .. })
        }
        (Tree::Scalar { raw: a, .. }, Tree::Scalar { raw: b, .. }) => a == b,
        (Tree::List { items: a, .. }, Tree::List { items: b, .. }) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Tree::Map { entries: a, .. }, Tree::Map { entries: b, .. }) => {
            a.len() == b.len()
                && a.iter().all(|(key, _, value)| b.iter().any(|(k, _, v)| k == key && same(value, v)))
        }
        _ => false,
    }
}

/// How large a value is, so that what many small expressions make of each other stays small.
fn weight(value: &Tree) -> usize {
    match value {
        Tree::Map { entries, .. } => {
            1 + entries.iter().map(|(key, _, value)| key.len() / 8 + weight(value)).sum::<usize>()
        }
        Tree::List { items, .. } => 1 + items.iter().map(weight).sum::<usize>(),
        Tree::Scalar { raw, .. } => 1 + raw.len() / 8,
    }
}

pub(super) fn truth(value: &Tree) -> Option<bool> {
    match value {
        Tree::Scalar { raw, .. } if raw == "true" => Some(true),
        Tree::Scalar { raw, .. } if raw == "false" => Some(false),
        _ => None,
    }
}

pub(super) fn numeric(value: &Tree) -> Option<f64> {
    match value {
        Tree::Scalar { raw, .. } => raw.parse().ok().filter(|number: &f64| number.is_finite()),
        _ => None,
    }
}

/// A scalar as a text; null and collections have none.
pub(super) fn plain(value: &Tree) -> Option<String> {
    match value {
        Tree::Scalar { value: Scalar::Null, .. } | Tree::Map { .. } | Tree::List { .. } => None,
        Tree::Scalar { raw, .. } => Some(raw.clone()),
    }
}

fn scalar(span: Span, value: Scalar, raw: &str) -> Tree {
    Tree::Scalar { span, raw: raw.to_owned(), value }
}

pub(super) fn text(span: Span, raw: &str) -> Tree {
    scalar(span, Scalar::Text, raw)
}

pub(super) fn boolean(span: Span, value: bool) -> Tree {
    scalar(span, Scalar::Bool(value), if value { "true" } else { "false" })
}

pub(super) fn number(span: Span, raw: &str) -> Tree {
    let value = match (raw.parse::<i128>(), raw.parse::<f64>()) {
        (Ok(whole), _) => Scalar::Integer(whole),
        (_, Ok(number)) => Scalar::Number(number),
        _ => Scalar::Text,
    };
    scalar(span, value, raw)
}

fn float(span: Span, value: f64) -> Tree {
    number(span, &value.to_string())
}
