//! The part of a request after the question mark: watching, pages, dry runs, and selecting by label or field.

use serde_json::Value;

/// What a client asks beside the path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) watch: bool,
    /// The version that was given; `None` when none was.
    pub(crate) version: Option<u64>,
    /// A watch that starts with what is there, and says when that was all.
    pub(crate) initial_events: bool,
    pub(crate) bookmarks: bool,
    /// Seconds after which a watch ends.
    pub(crate) timeout: Option<u64>,
    pub(crate) limit: usize,
    pub(crate) after: String,
    pub(crate) dry_run: bool,
    pub(crate) manager: String,
    /// What becomes of dependents of something deleted.
    pub(crate) propagation: String,
    pub(crate) grace: Option<u64>,
    labels: Selector,
    fields: Selector,
}

/// Conditions that must all hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selector(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    key: String,
    /// Empty: only that the key is there (or is not, when negated).
    values: Vec<String>,
    negated: bool,
}

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let mut query = Self::default();
        for pair in text.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value);
            let yes = value == "true" || value == "1";
            match key {
                "watch" => query.watch = yes,
                "resourceVersion" => query.version = value.parse().ok(),
                "sendInitialEvents" => query.initial_events = yes,
                "allowWatchBookmarks" => query.bookmarks = yes,
                "timeoutSeconds" => query.timeout = value.parse().ok(),
                "limit" => query.limit = value.parse().unwrap_or(0),
                "continue" => query.after = value,
                "dryRun" => query.dry_run = value == "All",
                "fieldManager" => query.manager = value,
                "propagationPolicy" => query.propagation = value,
                "gracePeriodSeconds" => query.grace = value.parse().ok(),
                "labelSelector" => query.labels = Selector::parse(&value),
                "fieldSelector" => query.fields = Selector::parse(&value),
                _ => {}
            }
        }
        query
    }

    pub(crate) fn wants(&self, object: &Value) -> bool {
        let field = |key: &str| object.pointer(&format!("/{}", key.replace('.', "/")))?.as_str();
        self.labels.picks(object) && self.fields.0.iter().all(|t| t.holds(Some(field(&t.key).unwrap_or(""))))
    }
}

impl Selector {
    pub(crate) fn parse(selector: &str) -> Self {
        // Commas also stand between the values of a set.
        let (mut terms, mut depth, mut from) = (vec![], 0_i32, 0);
        for (at, letter) in selector.char_indices() {
            match letter {
                '(' => depth += 1,
                ')' => depth -= 1,
                ',' if depth == 0 => {
                    terms.push(&selector[from..at]);
                    from = at + 1;
                }
                _ => {}
            }
        }
        terms.push(&selector[from..]);
        Self(terms.into_iter().map(str::trim).filter(|t| !t.is_empty()).map(Term::parse).collect())
    }

    /// A selector as objects carry it: `matchLabels` and `matchExpressions`.
    pub(crate) fn of_object(selector: &Value) -> Self {
        let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
        let equal = labels.map(|(key, value)| Term {
            key: key.clone(),
            values: vec![value.as_str().unwrap_or_default().to_owned()],
            negated: false,
        });
        let expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
        let set = expressions.map(|expression| {
            let values = expression["values"].as_array().into_iter().flatten();
            let operator = expression["operator"].as_str().unwrap_or_default();
            Term {
                key: expression["key"].as_str().unwrap_or_default().to_owned(),
                values: values.filter_map(Value::as_str).map(str::to_owned).collect(),
                negated: ["NotIn", "DoesNotExist"].contains(&operator),
            }
        });
        Self(equal.chain(set).collect())
    }

    /// Whether an object's labels are as wanted.
    pub(crate) fn picks(&self, object: &Value) -> bool {
        let label = |key: &str| object.get("metadata")?.get("labels")?.get(key)?.as_str();
        self.0.iter().all(|term| term.holds(label(&term.key)))
    }
}

impl Term {
    fn parse(text: &str) -> Self {
        let one = |key: &str, value: &str, negated| Self {
            key: key.trim().to_owned(),
            values: vec![value.trim().to_owned()],
            negated,
        };
        if let Some((head, values)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            let (key, operator) = head.trim().rsplit_once(' ').unwrap_or((head, "in"));
            let values = values.split(',').map(|value| value.trim().to_owned()).collect();
            return Self { key: key.trim().to_owned(), values, negated: operator == "notin" };
        }
        if let Some((key, value)) = text.split_once("!=") {
            return one(key, value, true);
        }
        match text.split_once("==").or_else(|| text.split_once('=')) {
            Some((key, value)) => one(key, value, false),
            None => {
                let negated = text.starts_with('!');
                Self { key: text.trim_start_matches('!').trim().to_owned(), values: vec![], negated }
            }
        }
    }

    fn holds(&self, found: Option<&str>) -> bool {
        let matches = match found {
            Some(found) => self.values.is_empty() || self.values.iter().any(|value| value == found),
            None => false,
        };
        matches != self.negated
    }
}

/// Percent signs and pluses undone.
fn decode(text: &str) -> String {
    let mut bytes = vec![];
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let code = std::str::from_utf8(&digits).ok().and_then(|d| u8::from_str_radix(d, 16).ok());
                bytes.extend(code);
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_pick_by_label_and_field() {
        let pod = json!({"metadata": {"labels": {"k8s-app": "kube-dns"}}, "spec": {"nodeName": "w1"}});
        let wants = |query: &str| Query::parse(query).wants(&pod);
        assert!(wants("labelSelector=k8s-app%3Dkube-dns&fieldSelector=spec.nodeName%3Dw1"));
        assert!(!wants("labelSelector=k8s-app%21%3Dkube-dns"));
        assert!(wants("labelSelector=k8s-app,%21other"));
        assert!(wants("labelSelector=k8s-app+in+(kube-dns,other),x+notin+(y,z)"));
        assert!(!wants("labelSelector=k8s-app+notin+(kube-dns,other)"));
        assert!(!wants("fieldSelector=spec.nodeName=w2"));
        assert!(wants("fieldSelector=status.phase!%3DFailed,spec.nodeName=w1"));
        assert_eq!(Query::parse("watch=true&resourceVersion=7").version, Some(7));
    }

    #[test]
    fn selectors_of_objects() {
        let pod = json!({"metadata": {"labels": {"app": "web", "tier": "front"}}});
        let picks = |selector: Value| Selector::of_object(&selector).picks(&pod);
        assert!(picks(json!({"matchLabels": {"app": "web"}})));
        assert!(!picks(json!({"matchLabels": {"app": "db"}})));
        assert!(picks(
            json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front", "back"]}]})
        ));
        assert!(!picks(json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]})));
    }
}
