//! Patches of the Talos configuration: strategic merge only, and nothing secret in them.

use serde_json::{Map, Value};

use crate::diagnostic::{Diagnostic, Path, codes};
use crate::spec::{PATCH_SECRETS, Patch, Spec};

pub(super) fn check(spec: &Spec, found: &mut Vec<Diagnostic>) {
    let defaults = [
        (Path::of(&["defaults", "controlplane"]), &spec.defaults.controlplane.traits.patches),
        (Path::of(&["defaults", "worker"]), &spec.defaults.worker.traits.patches),
    ];
    let pools = spec.pools.iter().map(|(name, pool)| (Path::of(&["pools", name]), &pool.traits.patches));
    let nodes = spec.nodes.iter().map(|(name, node)| (Path::of(&["nodes", name]), &node.traits.patches));
    let all = [(Path::root(), &spec.patches)].into_iter().chain(defaults).chain(pools).chain(nodes);
    for (path, patches) in all {
        for (index, patch) in patches.iter().enumerate() {
            let path = path.key("patches").index(index);
            match patch {
                Patch::Inline(inline) => mapping(inline, &path, found),
                Patch::Text(text) if text.contains('\n') => text_patch(text, &path, found),
                Patch::Text(file) if file.trim().is_empty() => {
                    let problem = Diagnostic::error(codes::BAD_PATCH, "a patch is empty");
                    found.push(problem.at(path, "").help("give a file, or the patch itself"));
                }
                Patch::Text(_) => {}
            }
        }
    }
}

/// A patch as text may hold several documents.
pub(super) fn text_patch(text: &str, path: &Path, found: &mut Vec<Diagnostic>) {
    let documents: Result<Vec<Value>, _> = serde_saphyr::from_multiple(text);
    let documents = match documents {
        Ok(documents) => documents,
        Err(error) => {
            let message = format!("a patch is not valid YAML: {}", error.without_snippet());
            let problem = Diagnostic::error(codes::BAD_PATCH, message).at(path.clone(), "");
            found.push(problem.help("check its indentation"));
            return;
        }
    };
    for document in documents {
        match document {
            Value::Object(inline) => mapping(&inline, path, found),
            Value::Array(items) if items.iter().any(is_json_patch) => {
                let operations: Vec<&Map<String, Value>> =
                    items.iter().filter_map(Value::as_object).collect();
                found.push(json_patch(path, &operations));
            }
            Value::Null => {}
            _ => {
                let problem =
                    Diagnostic::error(codes::BAD_PATCH, "a patch must be a mapping").at(path.clone(), "");
                found.push(
                    problem.help("write it as the piece of configuration that it changes: `machine: { … }`"),
                );
            }
        }
    }
}

fn mapping(patch: &Map<String, Value>, path: &Path, found: &mut Vec<Diagnostic>) {
    if is_operation(patch) {
        found.push(json_patch(path, &[patch]));
        return;
    }
    for keys in PATCH_SECRETS {
        let [first, rest @ ..] = keys else { continue };
        let value = rest.iter().try_fold(patch.get(*first), |value, key| Some(value?.get(key)));
        if let Some(Some(Value::String(text))) = value
            && !text.is_empty()
        {
            let message = format!("a patch sets `{}`, which is a secret", keys.join("."));
            let problem = Diagnostic::error(codes::SECRET_IN_FILE, message);
            let at = keys.iter().fold(path.clone(), |path, key| path.key(key));
            found.push(problem.at(at, "").help("secrets come from the secrets bundle; import it instead"));
        }
    }
    if patch.keys().all(|key| key != "machine" && key != "cluster" && key != "kind") {
        let problem = Diagnostic::error(codes::BAD_PATCH, "a patch changes neither `machine` nor `cluster`");
        let help = "start with `machine:` or `cluster:`, or name the `apiVersion` and `kind` of a document";
        found.push(problem.at(path.clone(), "").help(help));
    }
}

fn is_json_patch(item: &Value) -> bool {
    item.as_object().is_some_and(is_operation)
}

fn is_operation(patch: &Map<String, Value>) -> bool {
    patch.contains_key("op") && patch.contains_key("path")
}

fn json_patch(path: &Path, operations: &[&Map<String, Value>]) -> Diagnostic {
    let help = match strategic(operations) {
        Some(merge) => format!("write it as a strategic merge: `{}`", Value::Object(merge)),
        None => "write the desired value as a mapping: `{op: add, path: /machine/x, value: y}` becomes \
                 `machine: { x: y }`; lists are added to, never changed by number"
            .to_owned(),
    };
    Diagnostic::error(codes::JSON_PATCH, "this is a JSON patch, which newer Talos refuses")
        .at(path.clone(), "")
        .help(help)
}

/// The strategic merge that means the same, where all operations have such a form: keys of mappings that are set or taken
/// out, and elements added to the end of a list.
fn strategic(operations: &[&Map<String, Value>]) -> Option<Map<String, Value>> {
    let mut merge = Map::new();
    for operation in operations {
        let path = operation.get("path")?.as_str()?.strip_prefix('/')?;
        let mut keys: Vec<String> =
            path.split('/').map(|key| key.replace("~1", "/").replace("~0", "~")).collect();
        let mut value = match operation.get("op")?.as_str()? {
            "add" | "replace" => operation.get("value")?.clone(),
            "remove" => serde_json::json!({ "$patch": "delete" }),
            _ => return None,
        };
        if keys.last().is_some_and(|key| key == "-") {
            keys.pop();
            value = Value::Array(vec![value]);
        }
        let last = keys.pop()?;
        let mut at = &mut merge;
        for key in keys.iter().chain([&last]) {
            if key.parse::<usize>().is_ok() {
                return None;
            }
        }
        for key in keys {
            at = at.entry(key).or_insert_with(|| Value::Object(Map::new())).as_object_mut()?;
        }
        match (at.get_mut(&last), value) {
            (Some(Value::Array(known)), Value::Array(mut more)) => known.append(&mut more),
            (None, value) => drop(at.insert(last, value)),
            (Some(_), _) => return None,
        }
    }
    Some(merge)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_on_keys_have_a_strategic_form_and_those_on_numbers_have_none() {
        let form = |operations: Value| {
            let operations: Vec<&Map<String, Value>> =
                operations.as_array().into_iter().flatten().filter_map(Value::as_object).collect();
            strategic(&operations).map(|merge| Value::Object(merge).to_string())
        };
        let many = json!([
            { "op": "add", "path": "/machine/sysctls/net.core~1x", "value": "1" },
            { "op": "add", "path": "/machine/certSANs/-", "value": "a" },
            { "op": "add", "path": "/machine/certSANs/-", "value": "b" },
            { "op": "remove", "path": "/cluster/proxy" },
        ]);
        insta::assert_snapshot!(form(many).unwrap(), @r#"{"cluster":{"proxy":{"$patch":"delete"}},"machine":{"certSANs":["a","b"],"sysctls":{"net.core/x":"1"}}}"#);
        assert_eq!(form(json!([{ "op": "replace", "path": "/machine/certSANs/0", "value": "a" }])), None);
        assert_eq!(form(json!([{ "op": "test", "path": "/machine/a", "value": "a" }])), None);
        assert_eq!(form(json!([{ "op": "add", "path": "", "value": {} }])), None);
    }
}
