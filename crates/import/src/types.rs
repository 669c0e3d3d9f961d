//! Types of variables, as far as they add values: `optional(TYPE, DEFAULT)` in an object gives what an input leaves out.

use hcl_edit::expr::{Expression, ObjectKey};
use model::load::{Scalar, Tree};

/// Adds what the type of a variable says where `value` says nothing.
pub(super) fn fill(value: &mut Tree, kind: &Expression, eval: &dyn Fn(&Expression) -> Option<Tree>) {
    let Expression::FuncCall(call) = kind else { return };
    let inner = call.args.iter().next();
    match (call.name.name.as_str(), inner, value) {
        ("object", Some(Expression::Object(fields)), Tree::Map { span, entries }) => {
            for (key, field) in fields.iter() {
                let name = match key {
                    ObjectKey::Ident(name) => name.as_str(),
                    ObjectKey::Expression(Expression::String(name)) => name.as_str(),
                    ObjectKey::Expression(Expression::Variable(name)) => name.as_str(),
                    ObjectKey::Expression(_) => continue,
                };
                let (kind, default, may_miss) = optional(field.expr());
                let given = entries.iter_mut().find(|(key, ..)| key == name);
                let null = |value: &Tree| matches!(value, Tree::Scalar { value: Scalar::Null, .. });
                match (given, default) {
                    (Some((.., given)), default) => {
                        // What is set to null is left out, as OpenTofu has it.
                        if null(given)
                            && let Some(default) = default.and_then(eval)
                        {
                            *given = default;
                        }
                        fill(given, kind, eval);
                    }
                    (None, Some(default)) => {
                        if let Some(mut default) = eval(default) {
                            fill(&mut default, kind, eval);
                            entries.push((name.to_owned(), *span, default));
                        }
                    }
                    (None, None) if may_miss => {
                        let null = Tree::Scalar { span: *span, raw: "null".to_owned(), value: Scalar::Null };
                        entries.push((name.to_owned(), *span, null));
                    }
                    (None, None) => {}
                }
            }
        }
        ("map", Some(kind), Tree::Map { entries, .. }) => {
            entries.iter_mut().for_each(|(.., value)| fill(value, kind, eval));
        }
        ("list" | "set", Some(kind), Tree::List { items, .. }) => {
            items.iter_mut().for_each(|value| fill(value, kind, eval));
        }
        _ => {}
    }
}

/// The type of a field, its default, and whether it may be left out.
fn optional(field: &Expression) -> (&Expression, Option<&Expression>, bool) {
    match field {
        Expression::FuncCall(call) if call.name.name.as_str() == "optional" => {
            let mut args = call.args.iter();
            let kind = args.next().unwrap_or(field);
            (kind, args.next(), true)
        }
        _ => (field, None, false),
    }
}
