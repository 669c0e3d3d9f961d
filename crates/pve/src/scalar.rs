//! Scalars as Perl sends them.
//!
//! The same field may come as number, as string or as boolean, depending on what the server did with it before. These
//! functions are for `#[serde(deserialize_with)]`, together with `default`: whatever cannot be read as the wanted type
//! counts as absent, because one odd value in a list of a thousand machines must not hide the other 999.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A whole number that is not negative, or nothing.
///
/// # Errors
///
/// Only when the input is not JSON.
pub fn number<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    Ok(as_number(&Value::deserialize(input)?))
}

/// A number with a fraction, or nothing.
///
/// # Errors
///
/// Only when the input is not JSON.
pub fn fraction<'de, D: Deserializer<'de>>(input: D) -> Result<Option<f64>, D::Error> {
    Ok(match Value::deserialize(input)? {
        Value::Number(n) => n.as_f64(),
        Value::String(s) => s.trim().parse().ok(),
        _ => None,
    })
}

/// A boolean; absent means false.
///
/// # Errors
///
/// Only when the input is not JSON.
pub fn flag<'de, D: Deserializer<'de>>(input: D) -> Result<bool, D::Error> {
    Ok(as_flag(&Value::deserialize(input)?))
}

/// A text, whatever it was sent as, or nothing. An empty text counts as nothing.
///
/// # Errors
///
/// Only when the input is not JSON.
pub fn text<'de, D: Deserializer<'de>>(input: D) -> Result<Option<String>, D::Error> {
    Ok(as_text(&Value::deserialize(input)?).filter(|s| !s.is_empty()))
}

/// A list in one string (separated by commas, semicolons or spaces) or an array.
///
/// # Errors
///
/// Only when the input is not JSON.
pub fn list<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    Ok(match Value::deserialize(input)? {
        Value::Array(items) => items.iter().filter_map(as_text).collect(),
        other => as_text(&other).map(|s| split(&s)).unwrap_or_default(),
    })
}

pub(crate) fn split(list: &str) -> Vec<String> {
    let parts = list.split([',', ';', ' ', '\0']).map(str::trim);
    parts.filter(|s| !s.is_empty()).map(str::to_owned).collect()
}

pub(crate) fn as_number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(n) => n.as_u64().or_else(|| n.as_f64().and_then(whole)),
        Value::String(s) => s.trim().parse().ok().or_else(|| s.trim().parse().ok().and_then(whole)),
        Value::Bool(b) => Some(u64::from(*b)),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked in the line before")]
fn whole(number: f64) -> Option<u64> {
    ((0.0..9.0e15).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

pub(crate) fn as_flag(value: &Value) -> bool {
    match value {
        Value::Bool(b) => *b,
        Value::Number(n) => n.as_f64() != Some(0.0),
        Value::String(s) => matches!(s.trim().to_ascii_lowercase().as_str(), "1" | "on" | "yes" | "true"),
        _ => false,
    }
}

pub(crate) fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        Value::Bool(b) => Some(if *b { "1" } else { "0" }.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_in_many_clothes() {
        for value in [r"100", r#""100""#, r#"" 100 ""#, r"100.0", r#""100.0""#] {
            assert_eq!(as_number(&serde_json::from_str(value).unwrap()), Some(100), "{value}");
        }
        for value in ["null", "[]", r#""x""#, "-1", "1.5"] {
            assert_eq!(as_number(&serde_json::from_str(value).unwrap()), None, "{value}");
        }
        for value in ["1", r#""1""#, "true", r#""on""#] {
            assert!(as_flag(&serde_json::from_str(value).unwrap()), "{value}");
        }
        for value in ["0", r#""0""#, "false", "null", r#""""#] {
            assert!(!as_flag(&serde_json::from_str(value).unwrap()), "{value}");
        }
        assert_eq!(split("a;b, c"), ["a", "b", "c"]);
    }
}
