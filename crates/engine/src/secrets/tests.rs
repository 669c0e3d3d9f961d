//! Bundles and identities on a disk.

use super::*;

fn bundle() -> Bundle {
    let contract = Contract::parse("v1.13.9").unwrap();
    Bundle::placeholder(contract, "2026-01-01T00:00:00Z".parse().unwrap()).unwrap()
}

fn encrypted(to: &[&Identity]) -> AtRest {
    AtRest::Encrypted(to.iter().flat_map(|identity| identity.recipients()).collect())
}

#[test]
fn a_bundle_comes_back_and_another_identity_does_not_open_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home.secrets.age");
    let identity = Identity::generate();
    assert!(load(&path, Some(&identity)).unwrap().is_none());
    let bundle = bundle();
    create(&path, &bundle, &encrypted(&[&identity]), Some(&identity)).unwrap();
    let kept = load(&path, Some(&identity)).unwrap().unwrap();
    assert_eq!(kept.bundle.to_yaml(), bundle.to_yaml());
    assert_eq!(kept.at_rest, encrypted(&[&identity]));
    let on_disk = std::fs::read_to_string(&path).unwrap();
    assert!(on_disk.starts_with("-----BEGIN AGE ENCRYPTED FILE-----"));
    let error = create(&path, &bundle, &AtRest::Plain, None).unwrap_err();
    assert!(error.advice().unwrap().contains("never overwritten"), "{error}");
    let error = load(&path, Some(&Identity::generate())).unwrap_err();
    assert_eq!(error.kind(), Kind::Secrets);
    assert!(error.advice().unwrap().contains("TALOSMITH_IDENTITY"));
    assert!(load(&path, None).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), on_disk, "nothing of this changed it");
}

#[test]
fn several_may_open_it_and_nobody_locks_himself_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home.secrets.age");
    let (eva, tom) = (Identity::generate(), Identity::generate());
    create(&path, &bundle(), &encrypted(&[&eva]), Some(&eva)).unwrap();
    let kept = load(&path, Some(&eva)).unwrap().unwrap();
    let both: Vec<String> = [&eva, &tom].iter().flat_map(|one| one.recipients()).collect();
    encrypt_again(&path, &kept, &eva, &both).unwrap();
    let kept = load(&path, Some(&tom)).unwrap().unwrap();
    assert_eq!(kept.at_rest, AtRest::Encrypted(both));
    let error = encrypt_again(&path, &kept, &eva, &tom.recipients()).unwrap_err();
    assert_eq!(error.kind(), Kind::Refused);
    assert!(load(&path, Some(&eva)).is_ok(), "nothing was changed");
    encrypt_again(&path, &kept, &tom, &tom.recipients()).unwrap();
    assert!(load(&path, Some(&eva)).is_err());
}

#[test]
fn a_plain_bundle_needs_no_identity_and_what_others_made_is_imported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home.secrets.yaml");
    let bundle = bundle();
    create(&path, &bundle, &AtRest::Plain, None).unwrap();
    assert_eq!(load(&path, None).unwrap().unwrap().at_rest, AtRest::Plain);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(import(&text, "x").unwrap().cluster_id(), bundle.cluster_id());
    for wrong in ["{}", "a: b", "", "AGE-SECRET-KEY-1"] {
        let error = import(wrong, "x").unwrap_err();
        assert!(error.advice().unwrap().contains("secrets.yaml"), "{wrong}");
    }
}

#[test]
fn an_identity_survives_its_text() {
    let identity = Identity::generate();
    let again = Identity::parse(identity.to_text().expose_secret()).unwrap();
    assert_eq!(again.recipients(), identity.recipients());
    let two =
        format!("{}{}", identity.to_text().expose_secret(), Identity::generate().to_text().expose_secret());
    assert_eq!(Identity::parse(&two).unwrap().recipients().len(), 2);
    assert!(Identity::parse("hello").is_err() && Identity::parse("# nothing\n").is_err());
    assert!(!format!("{identity:?}").contains("SECRET"));
    let error = check_recipient(identity.to_text().expose_secret()).unwrap_err();
    assert!(!format!("{error:?}").contains("SECRET-KEY-1"), "not repeated");
}

#[test]
fn a5_a_bundle_that_the_kept_identity_does_not_open_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home.secrets.age");
    let (made, on_disk) = (Identity::generate(), Identity::generate());
    let error = create(&path, &bundle(), &encrypted(&[&made]), Some(&on_disk)).unwrap_err();
    assert_eq!(error.kind(), Kind::Secrets);
    assert!(create(&path, &bundle(), &encrypted(&[&made]), None).is_err(), "unproved is not written either");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a5_a_bundle_has_a_form_and_a_newer_one_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home.secrets.yaml");
    create(&path, &bundle(), &AtRest::Plain, None).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("# talosmith-bundle: 1\n"), "{}", text.lines().next().unwrap());
    std::fs::write(&path, text.replace("talosmith-bundle: 1", "talosmith-bundle: 2")).unwrap();
    let error = load(&path, None).unwrap_err();
    assert!(error.causes().join(": ").contains("newer"), "{:?}", error.causes());
    assert!(error.advice().unwrap().contains("upgrade Talosmith"));
    // Those of talosctl and of earlier releases say nothing.
    let plain = text.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>();
    std::fs::write(&path, plain).unwrap();
    assert!(load(&path, None).unwrap().is_some());
}

#[test]
fn a5_what_is_not_known_of_a_bundle_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home.secrets.age");
    let (eva, tom) = (Identity::generate(), Identity::generate());
    let body = format!("{}future:\n    key: kept\n", bundle().to_yaml());
    write(&path, &body, &encrypted(&[&eva]), Some(&eva), Existing::Keep, &mut |_| Ok(())).unwrap();
    let kept = load(&path, Some(&eva)).unwrap().unwrap();
    let both: Vec<String> = [&eva, &tom].iter().flat_map(|one| one.recipients()).collect();
    encrypt_again(&path, &kept, &eva, &both).unwrap();
    let kept = load(&path, Some(&tom)).unwrap().unwrap();
    assert_eq!(kept.body.expose_secret(), body);
}
