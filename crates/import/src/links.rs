//! Files that an input names stay where they are; the result, which may lie in another folder, must still find them.

use model::spec::{Cni, Spec};

/// The way from the result's folder to the input's.
pub(super) struct Links {
    prefix: Vec<String>,
}

/// The folder of a file.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A path, seen from where `folder` is seen.
pub(super) fn join(folder: &str, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    let whole = steps(&format!("{folder}/{path}")).join("/");
    if folder.starts_with('/') { format!("/{whole}") } else { whole }
}

impl Links {
    pub(super) fn new(beside: &str, input: &str) -> Self {
        let (from, to) = (steps(beside), steps(input));
        let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
        let mut prefix = vec!["..".to_owned(); from.len() - common];
        prefix.extend(to.into_iter().skip(common));
        Self { prefix }
    }

    /// Rewrites every path that a translation can have set.
    pub(super) fn mend(&self, spec: &mut Spec) {
        if let Some(path) = &mut spec.image.schematic {
            *path = self.path(path);
        }
        if let Cni::Details(details) = &mut spec.kubernetes.cni
            && let Some(path) = &mut details.values_file
        {
            *path = self.path(path);
        }
        for path in &mut spec.manifests.files {
            *path = self.path(path);
        }
    }

    fn path(&self, path: &str) -> String {
        if path.starts_with('/') {
            return path.to_owned();
        }
        let mut whole: Vec<String> = self.prefix.clone();
        for step in steps(path) {
            if step == ".." && whole.last().is_some_and(|last| last != "..") {
                whole.pop();
            } else {
                whole.push(step);
            }
        }
        whole.join("/")
    }
}

/// The steps of a path. `..` at its beginning is a step like any other.
fn steps(path: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for step in path.split('/').filter(|step| *step != "." && !step.is_empty()) {
        if step == ".." && all.last().is_some_and(|last| last != "..") {
            all.pop();
        } else {
            all.push(step.to_owned());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_finds_the_files_of_the_input() {
        let seen = |beside: &str, input: &str, path: &str| Links::new(beside, input).path(path);
        assert_eq!(seen("", "", "image/schematic.yaml"), "image/schematic.yaml");
        assert_eq!(seen("", "tofu", "image/schematic.yaml"), "tofu/image/schematic.yaml");
        assert_eq!(seen("", "lab/tofu", "../k8s/values.yaml"), "lab/k8s/values.yaml");
        assert_eq!(seen("clusters", "tofu", "./x.yaml"), "../tofu/x.yaml");
        assert_eq!(seen("tofu/out", "tofu", "../../k8s/x.yaml"), "../../../k8s/x.yaml");
        assert_eq!(seen("a", "b", "/etc/x.yaml"), "/etc/x.yaml");
    }
}
