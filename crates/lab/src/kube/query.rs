//! The part of a request after the question mark: watching, and selecting by label or field.

use serde_json::Value;

/// What a client asks of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) watch: bool,
    /// Changes after this version are wanted; 0 for all that is there.
    pub(super) since: u64,
    labels: Vec<Term>,
    fields: Vec<Term>,
}

/// One condition of a selector.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    key: String,
    /// `None`: only that the key is there (or is not, when negated).
    value: Option<String>,
    negated: bool,
}

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let mut query = Self::default();
        for pair in text.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value);
            match key {
                "watch" => query.watch = value == "true" || value == "1",
                "resourceVersion" => query.since = value.parse().unwrap_or(0),
                "labelSelector" => query.labels = terms(&value),
                "fieldSelector" => query.fields = terms(&value),
                _ => {}
            }
        }
        query
    }

    pub(super) fn select(&self, objects: Vec<&Value>) -> Vec<Value> {
        objects.into_iter().filter(|object| self.wants(object)).cloned().collect()
    }

    pub(super) fn wants(&self, object: &Value) -> bool {
        let label = |key: &str| object.get("metadata")?.get("labels")?.get(key)?.as_str();
        let field = |key: &str| object.pointer(&format!("/{}", key.replace('.', "/")))?.as_str();
        self.labels.iter().all(|t| t.holds(label(&t.key)))
            && self.fields.iter().all(|t| t.holds(field(&t.key)))
    }
}

impl Term {
    fn holds(&self, found: Option<&str>) -> bool {
        let matches = match &self.value {
            Some(value) => found == Some(value.as_str()),
            None => found.is_some(),
        };
        matches != self.negated
    }
}

fn terms(selector: &str) -> Vec<Term> {
    let term = |text: &str| {
        let text = text.trim();
        let (key, value, negated) =
            match text.split_once("!=").map(|(k, v)| (k, v, true)).or_else(|| {
                text.split_once("==").or_else(|| text.split_once('=')).map(|(k, v)| (k, v, false))
            }) {
                Some((key, value, negated)) => (key, Some(value.trim().to_owned()), negated),
                None => (text.trim_start_matches('!'), None, text.starts_with('!')),
            };
        Term { key: key.trim().to_owned(), value, negated }
    };
    selector.split(',').filter(|t| !t.trim().is_empty()).map(term).collect()
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
        assert!(!wants("fieldSelector=spec.nodeName=w2"));
        assert_eq!(Query::parse("watch=true&resourceVersion=7").since, 7);
    }
}
