//! The functions that files of these formats use.
//!
//! `file` gives a marked path rather than a content: where the content matters, a translator asks the folder for it.

use std::net::Ipv4Addr;

use hcl_edit::expr::FuncCall;
use ipnet::Ipv4Net;
use model::diagnostic::Span;
use model::load::{Scalar, Tree};

use super::{Evaluator, Outcome, Scope, boolean, number, numeric, pairs, plain, put, same, text};
use crate::notes::Trouble;

/// What the value of `file("x")` starts with. No text of an input can hold a NUL.
pub(crate) const FILE: &str = "\u{0}file:";

/// No text that a function makes is longer.
const MAX_TEXT: usize = 1 << 20;

pub(super) fn call(
    evaluator: &Evaluator<'_>,
    source: usize,
    span: Span,
    call: &FuncCall,
    scope: &Scope<'_>,
) -> Outcome {
    let name = call.name.name.as_str();
    let trouble = |why: String| Trouble { span, why };
    if name == "can" {
        let fine = call.args.iter().next().is_some_and(|arg| evaluator.eval(source, arg, scope).is_ok());
        return Ok(boolean(span, fine));
    }
    if name == "try" {
        let tried = call.args.iter().find_map(|arg| evaluator.eval(source, arg, scope).ok());
        return tried.ok_or_else(|| trouble("none of the expressions in `try` can be evaluated".to_owned()));
    }
    let mut args = Vec::new();
    for arg in call.args.iter() {
        args.push(evaluator.eval(source, arg, scope)?);
    }
    if call.args.expand_final() {
        match args.pop() {
            Some(Tree::List { items, .. }) => args.extend(items),
            _ => return Err(trouble("`...` needs a list".to_owned())),
        }
    }
    if ["file", "templatefile"].contains(&name)
        && let Some(path) = args.first().and_then(plain)
    {
        return Ok(text(span, &format!("{FILE}{}", path.trim_start_matches("./"))));
    }
    if name == "yamldecode"
        && let Some(path) = args.first().and_then(plain).and_then(|p| p.strip_prefix(FILE).map(str::to_owned))
    {
        let found = evaluator.folder.yaml(&path);
        return found.ok_or_else(|| trouble(format!("`{path}` is not among the files, or is no YAML")));
    }
    apply(name, span, args).ok_or_else(|| trouble(format!("`{name}(…)` cannot be evaluated here")))
}

fn apply(name: &str, span: Span, args: Vec<Tree>) -> Option<Tree> {
    let texts: Vec<Option<String>> = args.iter().map(plain).collect();
    let text_at = |index: usize| texts.get(index).cloned().flatten();
    let number_at = |index: usize| args.get(index).and_then(numeric);
    let null = |tree: &Tree| matches!(tree, Tree::Scalar { value: Scalar::Null, .. });
    let list = |items: Vec<Tree>| Tree::List { span, items };
    Some(match name {
        "cidrhost" => text(span, &cidrhost(&text_at(0)?, number_at(1)?)?.to_string()),
        "merge" => {
            let mut merged = Vec::new();
            for arg in args.into_iter().filter(|arg| !null(arg)) {
                let Tree::Map { entries, .. } = arg else { return None };
                entries.into_iter().for_each(|(key, at, value)| put(&mut merged, key, at, value));
            }
            Tree::Map { span, entries: merged }
        }
        "coalesce" => {
            args.into_iter().find(|arg| !null(arg) && plain(arg).is_none_or(|text| !text.is_empty()))?
        }
        "lookup" => {
            let key = text_at(1)?;
            let mut args = args.into_iter();
            let Tree::Map { entries, .. } = args.next()? else { return None };
            let found = entries.into_iter().find(|(name, ..)| *name == key).map(|(.., value)| value);
            found.or_else(|| args.nth(1))?
        }
        "format" => text(span, &format_text(&text_at(0)?, &texts)?),
        "range" => {
            let (start, end, step) = match args.len() {
                1 => (0.0, number_at(0)?, 1.0),
                2 => (number_at(0)?, number_at(1)?, 1.0),
                _ => (number_at(0)?, number_at(1)?, number_at(2)?),
            };
            if step <= 0.0 || (end - start) / step > 10_000.0 {
                return None;
            }
            let steps = std::iter::successors(Some(start), |at| Some(at + step)).take_while(|at| *at < end);
            list(steps.map(|at| number(span, &at.to_string())).collect())
        }
        "length" => match args.first()? {
            Tree::List { items, .. } => number(span, &items.len().to_string()),
            Tree::Map { entries, .. } => number(span, &entries.len().to_string()),
            Tree::Scalar { raw, .. } => number(span, &raw.chars().count().to_string()),
        },
        "concat" => {
            let items = args.into_iter().map(|arg| match arg {
                Tree::List { items, .. } => Some(items),
                _ => None,
            });
            list(items.collect::<Option<Vec<_>>>()?.concat())
        }
        "flatten" => list(flat(args.into_iter().next()?)?),
        "distinct" => {
            let Tree::List { items, .. } = args.into_iter().next()? else { return None };
            let mut kept: Vec<Tree> = Vec::new();
            for item in items {
                if !kept.iter().any(|known| same(known, &item)) {
                    kept.push(item);
                }
            }
            list(kept)
        }
        "compact" => {
            let Tree::List { items, .. } = args.into_iter().next()? else { return None };
            list(items.into_iter().filter(|item| plain(item).is_some_and(|text| !text.is_empty())).collect())
        }
        "sort" => {
            let Tree::List { mut items, .. } = args.into_iter().next()? else { return None };
            items.sort_by_key(plain);
            list(items)
        }
        "reverse" => {
            let Tree::List { mut items, .. } = args.into_iter().next()? else { return None };
            items.reverse();
            list(items)
        }
        "zipmap" => {
            let mut args = args.into_iter();
            let (Tree::List { items: keys, .. }, Tree::List { items: values, .. }) =
                (args.next()?, args.next()?)
            else {
                return None;
            };
            let mut entries = Vec::new();
            for (key, value) in keys.into_iter().zip(values) {
                put(&mut entries, plain(&key)?, key.span(), value);
            }
            Tree::Map { span, entries }
        }
        "cidrsubnet" => text(span, &cidrsubnet(&text_at(0)?, number_at(1)?, number_at(2)?)?),
        "min" | "max" => {
            let numbers: Vec<f64> = args.iter().map(numeric).collect::<Option<_>>()?;
            let pick = if name == "min" { f64::min } else { f64::max };
            number(span, &numbers.into_iter().reduce(pick)?.to_string())
        }
        "floor" => number(span, &number_at(0)?.floor().to_string()),
        "ceil" => number(span, &number_at(0)?.ceil().to_string()),
        "abs" => number(span, &number_at(0)?.abs().to_string()),
        "keys" => list(pairs(args.into_iter().next()?)?.into_iter().map(|(key, _)| key).collect()),
        "values" => list(pairs(args.into_iter().next()?)?.into_iter().map(|(_, value)| value).collect()),
        "toset" | "tolist" | "tomap" | "sensitive" | "nonsensitive" | "tobool" => args.into_iter().next()?,
        "tostring" => text(span, &text_at(0)?),
        "tonumber" => number(span, &text_at(0)?),
        "lower" => text(span, &text_at(0)?.to_lowercase()),
        "upper" => text(span, &text_at(0)?.to_uppercase()),
        "trimspace" => text(span, text_at(0)?.trim()),
        "trimprefix" => {
            let (whole, prefix) = (text_at(0)?, text_at(1)?);
            text(span, whole.strip_prefix(&prefix).unwrap_or(&whole))
        }
        "trimsuffix" => {
            let (whole, suffix) = (text_at(0)?, text_at(1)?);
            text(span, whole.strip_suffix(&suffix).unwrap_or(&whole))
        }
        "startswith" => boolean(span, text_at(0)?.starts_with(&text_at(1)?)),
        "endswith" => boolean(span, text_at(0)?.ends_with(&text_at(1)?)),
        "basename" => text(span, text_at(0)?.rsplit('/').next()?),
        "abspath" | "pathexpand" => text(span, &text_at(0)?),
        // A pattern between slashes is a regular expression, which is not evaluated.
        "replace" if text_at(1)?.len() > 1 && text_at(1)?.starts_with('/') && text_at(1)?.ends_with('/') => {
            return None;
        }
        "replace" => {
            let (whole, old, new) = (text_at(0)?, text_at(1)?, text_at(2)?);
            let longer = whole.matches(&old).count().checked_mul(new.len())?;
            if longer > MAX_TEXT {
                return None;
            }
            text(span, &whole.replace(&old, &new))
        }
        "join" => {
            let Some(Tree::List { items, .. }) = args.get(1) else { return None };
            let parts: Vec<String> = items.iter().map(plain).collect::<Option<_>>()?;
            let between = text_at(0)?;
            if between.len().checked_mul(parts.len())? > MAX_TEXT {
                return None;
            }
            text(span, &parts.join(&between))
        }
        "split" => {
            let separator = text_at(0)?;
            list(text_at(1)?.split(&separator).map(|part| text(span, part)).collect())
        }
        "contains" => {
            let Some(Tree::List { items, .. }) = args.first() else { return None };
            boolean(span, items.iter().any(|item| plain(item) == text_at(1)))
        }
        "element" => {
            let index = number_at(1)?;
            let Some(Tree::List { items, .. }) = args.into_iter().next() else { return None };
            if items.is_empty() || index < 0.0 {
                return None;
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the index was checked"
            )]
            let at = index as usize % items.len();
            items.into_iter().nth(at)?
        }
        _ => return None,
    })
}

/// All items of lists in lists.
fn flat(value: Tree) -> Option<Vec<Tree>> {
    let Tree::List { items, .. } = value else { return None };
    let mut all = Vec::new();
    for item in items {
        match item {
            list @ Tree::List { .. } => all.extend(flat(list)?),
            other => all.push(other),
        }
    }
    Some(all)
}

/// The network with a number among those that are so many bits smaller.
fn cidrsubnet(network: &str, bits: f64, number: f64) -> Option<String> {
    let net: Ipv4Net = network.parse().ok()?;
    let room = f64::from(32 - net.prefix_len());
    if bits.fract() != 0.0 || number.fract() != 0.0 || !(0.0..=room).contains(&bits) {
        return None;
    }
    if !(0.0..f64::exp2(bits)).contains(&number) {
        return None;
    }
    let size = f64::exp2(room - bits);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "both were checked")]
    let (start, prefix) = ((number * size) as u32, net.prefix_len() + bits as u8);
    let address = u32::from(net.trunc().addr()).checked_add(start)?;
    Some(Ipv4Net::new(Ipv4Addr::from(address), prefix).ok()?.to_string())
}

/// The address with a number in a network.
fn cidrhost(network: &str, number: f64) -> Option<Ipv4Addr> {
    let net: Ipv4Net = network.parse().ok()?;
    let base = f64::from(u32::from(net.trunc().addr()));
    let size = f64::from(u32::from(net.hostmask())) + 1.0;
    let offset = if number < 0.0 { size + number } else { number };
    if !(0.0..size).contains(&offset) || offset.fract() != 0.0 {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number lies in the network"
    )]
    Some(Ipv4Addr::from((base + offset) as u32))
}

/// `%s`, `%d`, `%v` and `%02d`.
fn format_text(form: &str, args: &[Option<String>]) -> Option<String> {
    let mut out = String::new();
    let mut next = args.iter().skip(1);
    let mut letters = form.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let mut width = String::new();
        loop {
            match letters.next()? {
                '%' => {
                    out.push('%');
                    break;
                }
                digit if digit.is_ascii_digit() && width.len() < 3 => width.push(digit),
                's' | 'd' | 'v' => {
                    let value = next.next()?.clone()?;
                    let wanted: usize = width.parse().unwrap_or(0);
                    let fill = if width.starts_with('0') { '0' } else { ' ' };
                    out.extend(std::iter::repeat_n(fill, wanted.saturating_sub(value.chars().count())));
                    out.push_str(&value);
                    break;
                }
                _ => return None,
            }
        }
    }
    Some(out)
}
