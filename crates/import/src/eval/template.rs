//! Templates: texts with `${…}`, `%{ if … }` and `%{ for … }` in them, and `~` that takes the spaces beside it away.

use hcl_edit::template::{Directive, Element, Strip};
use model::diagnostic::Span;

use super::{Evaluator, Outcome, Scope, pairs, plain, text, truth};
use crate::notes::Trouble;

/// The value of a template. One that is only an interpolation has its value, whatever that is.
pub(super) fn eval<'e>(
    evaluator: &Evaluator<'_>,
    source: usize,
    span: Span,
    elements: impl Iterator<Item = &'e Element>,
    scope: &Scope<'_>,
) -> Outcome {
    let elements: Vec<&Element> = elements.collect();
    if let [Element::Interpolation(inner)] = elements[..] {
        return evaluator.eval(source, &inner.expr, scope);
    }
    let mut writer = Writer { evaluator, source, span, out: String::new(), strip: false };
    writer.write(&elements, scope)?;
    Ok(text(span, &writer.out))
}

struct Writer<'e, 'f> {
    evaluator: &'e Evaluator<'f>,
    source: usize,
    span: Span,
    out: String,
    /// Whether spaces that come next are taken away.
    strip: bool,
}

impl Writer<'_, '_> {
    fn write(&mut self, elements: &[&Element], scope: &Scope<'_>) -> Result<(), Trouble> {
        for element in elements {
            match element {
                Element::Literal(literal) => self.push(literal.as_str()),
                Element::Interpolation(inner) => {
                    self.before(inner.strip);
                    let value = self.evaluator.eval(self.source, &inner.expr, scope)?;
                    let part = plain(&value)
                        .ok_or_else(|| self.trouble("a list or mapping cannot stand in a text"))?;
                    self.strip = false;
                    self.out.push_str(&part);
                    self.after(inner.strip);
                }
                Element::Directive(directive) => self.directive(directive, scope)?,
            }
        }
        Ok(())
    }

    fn directive(&mut self, directive: &Directive, scope: &Scope<'_>) -> Result<(), Trouble> {
        match directive {
            Directive::If(branches) => {
                let first = &branches.if_expr;
                self.before(first.strip);
                let chosen = truth(&self.evaluator.eval(self.source, &first.cond_expr, scope)?)
                    .ok_or_else(|| self.trouble("the condition is neither true nor false"))?;
                let other = branches.else_expr.as_ref();
                let (template, begin) = match (chosen, other) {
                    (true, _) => (Some(&first.template), first.strip),
                    (false, Some(other)) => (Some(&other.template), other.strip),
                    (false, None) => (None, first.strip),
                };
                self.after(begin);
                if let Some(template) = template {
                    self.write(&template.iter().collect::<Vec<_>>(), scope)?;
                }
                if let Some(other) = other.filter(|_| chosen) {
                    self.before(other.strip);
                }
                self.before(branches.endif_expr.strip);
                self.after(branches.endif_expr.strip);
            }
            Directive::For(each) => {
                let (head, end) = (&each.for_expr, &each.endfor_expr);
                self.before(head.strip);
                let all = pairs(self.evaluator.eval(self.source, &head.collection_expr, scope)?)
                    .ok_or_else(|| self.trouble("`for` needs a list or a mapping"))?;
                let key_name = head.key_var.as_ref().map_or("", |name| name.as_str());
                let parts: Vec<&Element> = head.template.iter().collect();
                for (key, value) in all {
                    let outer = Scope::With { name: head.value_var.as_str(), value: &value, rest: scope };
                    let inner = Scope::With { name: key_name, value: &key, rest: &outer };
                    self.after(head.strip);
                    self.write(&parts, &inner)?;
                    self.before(end.strip);
                }
                self.after(end.strip);
            }
        }
        Ok(())
    }

    fn push(&mut self, literal: &str) {
        let literal = if self.strip { literal.trim_start() } else { literal };
        self.strip &= literal.is_empty();
        self.out.push_str(literal);
    }

    fn before(&mut self, strip: Strip) {
        if strip.strip_start() {
            self.out.truncate(self.out.trim_end().len());
        }
    }

    fn after(&mut self, strip: Strip) {
        self.strip = strip.strip_end();
    }

    fn trouble(&self, why: &str) -> Trouble {
        Trouble { span: self.span, why: why.to_owned() }
    }
}
