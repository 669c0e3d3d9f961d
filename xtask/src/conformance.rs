//! Conformance: what Talos' own library says, beside what we say.
//!
//! For each release one oracle is asked about the same things that our code decides: generated configurations, patches,
//! broken configurations, secrets, and what the program renders of whole cluster files. Every difference is printed and fails the
//! run. With `--all`, the checks against other real programs that take too long for every day follow. Without a Go
//! toolchain there is no oracle, and the run says that it skipped; with one, a skip is a failure.

mod blueprints;
mod cases;
mod fuzz;
mod goldens;
mod oracle;
mod program;
mod schema;
mod talosctl;

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use anyhow::{Context, bail};
use serde_json::json;
use talos::{
    config::{Contract, Documents, Role},
    patch::{Patch, Values},
    schematic::Schematic,
    secrets::Bundle,
    validate::{Mode, validate},
};

use self::{
    cases::Dice,
    oracle::{Oracle, RELEASES, Release},
};

/// Runs the checks for the two newest releases, or with `--all` for every one; `--schema` writes the table of known keys,
/// and `--goldens` the golden machine configs.
pub fn run(words: &[String]) -> anyhow::Result<()> {
    if !oracle::has_go() {
        say("skipped: there is no Go toolchain, so Talos' own library cannot be asked");
        return Ok(());
    }
    let releases = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => &RELEASES[..2],
        ["--all"] => RELEASES,
        ["--schema"] => return schema::run(false),
        ["--goldens"] => return goldens::run(false),
        _ => bail!("usage: cargo run -p xtask -- conformance [--all | --schema | --goldens]"),
    };
    goldens::run(true)?;
    say("golden files: as Talos' own library generates them");
    // A thread for each release: it asks a program of its own.
    let differences = std::thread::scope(|scope| {
        let runs: Vec<_> = releases.iter().map(|release| scope.spawn(|| Run::all(release))).collect();
        runs.into_iter().try_fold(0, |sum, run| match run.join() {
            Ok(differences) => Ok(sum + differences?),
            Err(_) => bail!("a check panicked"),
        })
    })?;
    talosctl::run()?;
    if differences > 0 {
        bail!("{differences} differences from Talos' own library");
    }
    if releases.len() == RELEASES.len() {
        schema::run(true)?;
        let mut rest = REST.to_vec();
        if std::env::var_os("TERRAFORM_PROVIDER_TALOS").is_some() {
            rest.push(&["conformance/tofu-talos/run"]);
        } else {
            say(
                "== conformance/tofu-talos/run is left out: TERRAFORM_PROVIDER_TALOS does not name the provider",
            );
        }
        let failed: Vec<String> =
            rest.into_iter().filter_map(|words| script(words).err()).map(|it| format!("{it:#}")).collect();
        if !failed.is_empty() {
            bail!("{}", failed.join("; "));
        }
    }
    Ok(())
}

/// Checks that are scripts of their own, whose peers take minutes to build.
const REST: &[&[&str]] =
    &[&["conformance/kube-apiserver/run"], &["conformance/talosctl/run", "1.12"], &["conformance/tofu/run"]];

/// Runs a script and shows what it says. There is Go, so a script that skips has failed.
fn script(words: &[&str]) -> anyhow::Result<()> {
    let name = words.join(" ");
    say(&format!("== {name}"));
    let mut child = Command::new("bash")
        .args(words)
        .current_dir(oracle::repository())
        .env("TALOSMITH", program::talosmith()?)
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("run {name}"))?;
    let mut skipped = false;
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        let line = line.with_context(|| format!("hear {name}"))?;
        skipped |= line.starts_with("skipped");
        say(&line);
    }
    if !child.wait()?.success() {
        bail!("{name} failed");
    }
    if skipped {
        bail!("{name} skipped, though there is Go");
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the report of a command is what it prints")]
fn say(line: &str) {
    println!("{line}");
}

struct Run<'a> {
    release: &'a Release,
    contract: Contract,
    oracle: Oracle,
    secrets: String,
    bundle: Bundle,
    differences: usize,
}

impl<'a> Run<'a> {
    fn new(release: &'a Release) -> anyhow::Result<Self> {
        let mut oracle = Oracle::start(release)?;
        let contract = Contract::parse(release.version)?;
        let question = json!({"op": "new-bundle", "input": {"contract": contract.to_string()}});
        let secrets = oracle.text(&question)?.map_err(anyhow::Error::msg)?;
        let bundle = Bundle::parse(&secrets).context("read a bundle that Talos made")?;
        Ok(Self { release, contract, oracle, secrets, bundle, differences: 0 })
    }

    /// Everything that is asked about a release; says how many differences there are.
    fn all(release: &'a Release) -> anyhow::Result<usize> {
        let mut run = Self::new(release)?;
        run.bundles()?;
        run.schematics()?;
        run.generator()?;
        run.machines()?;
        run.blueprints()?;
        run.patches()?;
        run.random_patches()?;
        run.breakages()?;
        Ok(run.differences)
    }

    fn differs(&mut self, what: &str, talos: &str, ours: &str) {
        self.differences += 1;
        say(&format!("DIFFERENT {} {what}\n  Talos: {talos}\n  ours:  {ours}", self.release.version));
    }

    fn report(&self, what: &str) {
        say(&format!("{} {what}", self.release.version));
    }

    /// Both read what the other writes.
    fn bundles(&mut self) -> anyhow::Result<()> {
        let question = |text: &str| json!({"op": "bundle", "config": text});
        let theirs = self.oracle.text(&question(&self.secrets))?.map_err(anyhow::Error::msg)?;
        let mut texts = vec![self.bundle.to_yaml()];
        let now = "2026-01-01T00:00:00Z".parse().context("a time")?;
        texts.push(Bundle::generate(self.contract, now)?.to_yaml());
        for (index, text) in texts.iter().enumerate() {
            match self.oracle.text(&question(text))? {
                Ok(read) if index == 0 && read != theirs => {
                    self.differs("bundle", "another text", "another text")
                }
                Ok(read) if Bundle::parse(&read)?.to_yaml() != *text => {
                    self.differs("bundle", "changed it", "the same")
                }
                Ok(_) => {}
                Err(error) => self.differs("bundle", &error, "fine"),
            }
        }
        self.report(&format!("bundles: {} both ways", texts.len()));
        Ok(())
    }

    /// Where we say that we know a schematic's id, Go's writer writes the texts as we do.
    fn schematics(&mut self) -> anyhow::Result<()> {
        let mut known = 0;
        for text in cases::kernel_arguments(&mut Dice::new(4)) {
            let schematic = Schematic { extra_kernel_args: vec![text.clone()], ..Schematic::default() };
            if schematic.id().is_none() {
                continue;
            }
            known += 1;
            let theirs =
                self.oracle.text(&json!({"op": "texts", "texts": [text]}))?.map_err(anyhow::Error::msg)?;
            let ours = format!("- {text}\n");
            if theirs.trim_start() != ours {
                self.differs("schematic", &theirs, &ours);
            }
        }
        self.report(&format!("schematics: {known} texts that stand bare"));
        Ok(())
    }

    /// Our generator gives what Talos' gives.
    fn generator(&mut self) -> anyhow::Result<()> {
        let mut dice = Dice::new(1);
        for number in 0..50 {
            let input = cases::random_input(&mut dice, self.release.minor)?;
            let theirs = self.oracle.text(&cases::generator_question(&input, &self.secrets))?;
            let ours = talos::config::generate(&self.bundle, &input)?.to_yaml();
            let ours = self.oracle.text(&json!({"op": "normal", "config": ours}))?;
            match (theirs, ours) {
                (Ok(theirs), Ok(ours)) => {
                    let theirs = self.oracle.text(&json!({"op": "normal", "config": theirs}))?;
                    if theirs.as_ref() != Ok(&ours) {
                        let (theirs, ours) = first_difference(&theirs.unwrap_or_default(), &ours);
                        self.differs(&format!("generator {number} {input:?}"), &theirs, &ours);
                    }
                }
                (theirs, ours) => self.differs("generator", &format!("{theirs:?}"), &format!("{ours:?}")),
            }
        }
        self.report("generator: 50 inputs");
        Ok(())
    }

    /// What we write for machines is accepted, by both.
    fn machines(&mut self) -> anyhow::Result<()> {
        let mut dice = Dice::new(2);
        for number in 0..200 {
            let documents = cases::random_machine(&mut dice, &self.bundle, self.release.minor)?;
            for mode in [Mode::Cloud, Mode::Metal] {
                let (theirs, ours) = self.verdicts(&documents.to_yaml(), mode)?;
                if theirs.is_some() || ours.is_some() {
                    self.differs(&format!("machine {number} {mode:?}"), &shown(&theirs), &shown(&ours));
                }
            }
        }
        self.report("machines: 200 configurations, in cloud and metal mode");
        Ok(())
    }

    /// What Talos and we have against a configuration.
    fn verdicts(&mut self, text: &str, mode: Mode) -> anyhow::Result<(Option<String>, Option<String>)> {
        let name = match mode {
            Mode::Cloud => "cloud",
            Mode::Metal => "metal",
            Mode::Container => "container",
        };
        let theirs = self.oracle.text(&json!({"op": "validate", "config": text, "mode": name}))?.err();
        let ours = match Documents::parse(text) {
            Ok(documents) => {
                let problems = validate(&documents, self.contract, mode);
                let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
                (!said.is_empty()).then(|| said.join("; "))
            }
            Err(error) => Some(error.to_string()),
        };
        Ok((theirs, ours))
    }

    /// A release's own contract, and the one before it, because many rules are about fields that documents replaced.
    fn contracts_and_roles(&self) -> Vec<(u32, Role)> {
        let minor = self.release.minor;
        let roles = [Role::ControlPlane, Role::Worker];
        [minor, minor - 1].into_iter().flat_map(|contract| roles.map(|role| (contract, role))).collect()
    }

    /// Each patch over the base, and many pairs of patches one after the other.
    fn patches(&mut self) -> anyhow::Result<()> {
        let patches = cases::read("patches.txt")?;
        let mut dice = Dice::new(3);
        let (mut asked, mut refused) = (0, 0);
        for (contract, role) in self.contracts_and_roles() {
            let base = cases::base(&self.bundle, contract, self.release.minor, role)?.to_yaml();
            for index in 0..patches.len() {
                // The one before in the file is often about the same thing, so it is tried first.
                let before = [
                    None,
                    index.checked_sub(1),
                    Some(index),
                    index.checked_sub(2),
                    Some(dice.index(patches.len())),
                ];
                for first in before
                    .into_iter()
                    .enumerate()
                    .filter(|(at, it)| *at == 0 || it.is_some())
                    .map(|(_, it)| it)
                {
                    let start = match first {
                        None => base.clone(),
                        Some(first) => match self.patched_by_talos(&base, &patches[first].text)? {
                            Ok(text) => text,
                            Err(_) => continue,
                        },
                    };
                    asked += 1;
                    let name = format!(
                        "patch {:?} after {:?}",
                        patches[index].name,
                        first.map(|first| &patches[first].name)
                    );
                    refused += usize::from(self.patch(&name, &start, &patches[index].text)?);
                }
            }
        }
        self.report(&format!(
            "patches: {asked} applied over configurations, {refused} of them refused by both"
        ));
        Ok(())
    }

    /// Random documents, merged with each other.
    fn random_patches(&mut self) -> anyhow::Result<()> {
        let names: Vec<&str> = std::iter::once("v1alpha1").chain(talos::config::all_kinds()).collect();
        let answer =
            self.oracle.ask(&json!({"op": "schema", "kinds": names}))?.map_err(anyhow::Error::msg)?;
        let shapes = fuzz::Shapes::read(&answer)?;
        let mut dice = Dice::new(5);
        let (mut asked, mut refused) = (0, 0);
        for number in 0..2000 {
            let (first, second) = shapes.pair(&mut dice);
            let Ok(start) = self.oracle.text(&json!({"op": "normal", "config": first}))? else { continue };
            // Some values have no text that can be read again; then there is nothing to compare.
            if self.oracle.text(&json!({"op": "normal", "config": start}))?.is_err() {
                continue;
            }
            asked += 1;
            refused += usize::from(self.patch(
                &format!("random patch {number}: {second} over {first}"),
                &start,
                &second,
            )?);
        }
        self.report(&format!("random patches: {asked} applied, {refused} of them refused by both"));
        Ok(())
    }

    fn patched_by_talos(&mut self, config: &str, patch: &str) -> anyhow::Result<Result<String, String>> {
        self.oracle.text(&json!({"op": "patch", "config": config, "patch": patch}))
    }

    /// Compares one patch; says whether both refused it.
    fn patch(&mut self, name: &str, config: &str, patch: &str) -> anyhow::Result<bool> {
        let theirs = self.patched_by_talos(config, patch)?;
        let mut documents = Documents::parse(config)?;
        let ours =
            Patch::parse(patch, self.contract, &Values::new()).and_then(|patch| patch.apply(&mut documents));
        let ours = match ours {
            Ok(()) => {
                let text = documents.to_yaml();
                self.oracle
                    .text(&json!({"op": "normal", "config": text}))?
                    .map_err(|error| format!("unreadable: {error}"))
            }
            Err(error) => Err(error.to_string()),
        };
        match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => {
                if theirs != ours {
                    let (theirs, ours) = first_difference(&theirs, &ours);
                    self.differs(name, &theirs, &ours);
                }
                Ok(false)
            }
            (Err(_), Err(error)) if !error.starts_with("unreadable") => Ok(true),
            // Configurations of one document would take them, but no machine that we make has one.
            (Ok(_), Err(_)) if name.contains("refused on purpose") => Ok(false),
            (theirs, ours) => {
                self.differs(
                    name,
                    &theirs.map_or_else(|it| it, |_| "fine".into()),
                    &ours.map_or_else(|it| it, |_| "fine".into()),
                );
                Ok(false)
            }
        }
    }

    /// What Talos refuses we refuse, and what it accepts we accept.
    fn breakages(&mut self) -> anyhow::Result<()> {
        let (mut asked, mut refused) = (0, 0);
        for (contract, role) in self.contracts_and_roles() {
            let base = cases::base(&self.bundle, contract, self.release.minor, role)?;
            for mode in [Mode::Cloud, Mode::Metal] {
                let (theirs, ours) = self.verdicts(&base.to_yaml(), mode)?;
                if theirs.is_some() || ours.is_some() {
                    self.differs("the configuration that is broken", &shown(&theirs), &shown(&ours));
                }
            }
            for case in cases::read("broken.txt")? {
                let text = cases::broken(&base, &case.text)?;
                for mode in [Mode::Cloud, Mode::Metal] {
                    let (theirs, ours) = self.verdicts(&text, mode)?;
                    asked += 1;
                    match (&theirs, &ours) {
                        (Some(_), Some(_)) => refused += 1,
                        (None, None) => {}
                        // Before 1.14 only a node looks at the versions in image names, not the library.
                        (None, Some(_))
                            if self.release.minor < 14 && case.name.ends_with("seen by a node") => {}
                        _ => {
                            let name = format!("breakage {:?} v1.{contract} {role:?} {mode:?}", case.name);
                            self.differs(&name, &shown(&theirs), &shown(&ours));
                        }
                    }
                }
            }
        }
        self.report(&format!("broken configurations: {asked} asked, {refused} of them refused by both"));
        Ok(())
    }
}

fn shown(verdict: &Option<String>) -> String {
    verdict
        .as_deref()
        .map_or_else(|| "fine".to_owned(), |text| text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The first lines in which two texts differ.
fn first_difference(left: &str, right: &str) -> (String, String) {
    let (mut a, mut b) = (left.lines(), right.lines());
    loop {
        match (a.next(), b.next()) {
            (Some(left), Some(right)) if left == right => {}
            (left, right) => {
                return (lines(left, a), lines(right, b));
            }
        }
    }
}

fn lines<'a>(first: Option<&'a str>, more: std::str::Lines<'a>) -> String {
    first.into_iter().chain(more.take(2)).map(str::trim).collect::<Vec<_>>().join(" | ")
}
