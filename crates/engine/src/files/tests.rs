//! Writing at once, and dying in between.

use std::sync::{Arc, Barrier};

use super::*;

const MOMENTS: [Moment; 7] = [
    Moment::Created,
    Moment::Written,
    Moment::Flushed,
    Moment::Checked,
    Moment::Placed,
    Moment::Removed,
    Moment::FolderFlushed,
];

/// What a process that is killed leaves behind: everything as it stands, but its locks. The folder is copied in that moment.
fn killed_at(moment: Moment, existing: Existing, before: Option<&[u8]>) -> tempfile::TempDir {
    let (folder, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join("secret");
    if let Some(before) = before {
        std::fs::write(&path, before).unwrap();
    }
    let mut reached = false;
    let written = write(&path, b"new", existing, &|_| Ok(()), &mut |now| {
        if now == moment {
            reached = true;
            for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
                std::fs::copy(entry.path(), left.path().join(entry.file_name())).unwrap();
            }
            return Err(io::Error::other("killed"));
        }
        Ok(())
    });
    assert!(reached && written.is_err());
    left
}

fn names(folder: &Path) -> Vec<String> {
    let found = std::fs::read_dir(folder).unwrap().flatten();
    found.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a5_a_process_that_is_killed_leaves_no_file_or_a_whole_one() {
    for moment in MOMENTS {
        let left = killed_at(moment, Existing::Keep, None);
        let path = left.path().join("secret");
        match std::fs::read(&path) {
            Ok(bytes) => {
                assert_eq!(bytes, b"new", "{moment:?}");
                let again = write_private(&path, b"other", true).unwrap_err();
                assert_eq!(again.kind(), ErrorKind::AlreadyExists);
            }
            Err(_) => write_private(&path, b"new", true).unwrap(),
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(names(left.path()), ["secret"], "after {moment:?} what was left is removed");

        let left = killed_at(moment, Existing::Replace, Some(b"old"));
        let bytes = std::fs::read(left.path().join("secret")).unwrap();
        assert!(bytes == b"old" || bytes == b"new", "{moment:?}");
    }
}

#[test]
fn a5_private_files_are_private_and_new_ones_never_replace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    write_private(&path, b"one", true).unwrap();
    let kept = write_private(&path, b"two", true).unwrap_err();
    assert_eq!(kept.kind(), ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(&path).unwrap(), b"one");
    write_private(&path, b"three", false).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"three");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(names(folder.path()), ["secret"], "nothing temporary stays");
}

#[test]
fn a5_what_does_not_pass_its_check_gets_no_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let check = |back: &[u8]| {
        assert_eq!(back, b"one");
        Err(io::Error::other("it does not open"))
    };
    let checked = write(&path, b"one", Existing::Keep, &check, &mut |_| Ok(()));
    assert_eq!(checked.unwrap_err().to_string(), "it does not open");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a5_of_many_writers_at_once_one_wins_and_its_file_is_whole() {
    for round in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let barrier = Arc::new(Barrier::new(8));
        let writers: Vec<_> = (0..8u8)
            .map(|number| {
                let (path, barrier) = (path.clone(), barrier.clone());
                std::thread::spawn(move || {
                    barrier.wait();
                    write_private(&path, &[number; 100], true).map(|()| number)
                })
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        let won: Vec<u8> = ended.iter().filter_map(|end| end.as_ref().ok().copied()).collect();
        let lost = ended.iter().filter_map(|end| end.as_ref().err());
        for error in lost {
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "round {round}: {error}");
        }
        assert_eq!(won.len(), 1);
        assert_eq!(std::fs::read(&path).unwrap(), [won[0]; 100]);
        assert_eq!(names(folder.path()), ["secret"]);
    }
}
