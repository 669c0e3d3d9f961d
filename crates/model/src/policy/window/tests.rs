//! Windows over midnight, and on the days on which the clock is set.

use proptest::prelude::*;

use super::*;

fn window(days: &[Day], from: &str, to: &str, zone: &str) -> Window {
    let spec = spec::Window { days: days.to_vec(), from: from.into(), to: to.into(), time_zone: zone.into() };
    Window::read(&spec).unwrap()
}

/// Berlin by its rule: the clock goes from 02:00 to 03:00 on the last Sunday of March, and back from 03:00 to 02:00 in October.
fn berlin() -> TimeZone {
    TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The state of a window in Berlin, with the time at which it opens.
fn state(window: &Window, now: &str) -> Result<(), String> {
    match window.state(at(now), &berlin()) {
        WindowState::Open => Ok(()),
        WindowState::Closed { opens } => Err(opens.map_or("never".into(), |opens| opens.to_string())),
        WindowState::Unknown => unreachable!(),
    }
}

#[test]
fn it_opens_and_closes_to_the_minute() {
    let window = window(&[], "22:00", "23:30", "UTC");
    let open = |text: &str| window.is_open(text.parse().unwrap());
    assert!(!open("2026-11-17T21:59:59") && open("2026-11-17T22:00"));
    assert!(open("2026-11-17T23:29:59") && !open("2026-11-17T23:30"));
}

#[test]
fn over_midnight_it_belongs_to_the_day_on_which_it_opened() {
    // 2026-11-20 is a Friday.
    let window = window(&[Day::Fri], "22:00", "04:00", "UTC");
    let open = |text: &str| window.is_open(text.parse().unwrap());
    assert!(!open("2026-11-20T03:00"), "that would be Thursday's");
    assert!(!open("2026-11-20T21:59") && open("2026-11-20T22:00"));
    assert!(open("2026-11-21T03:59"), "Saturday morning is Friday's night");
    assert!(!open("2026-11-21T04:00") && !open("2026-11-21T22:00"));
}

#[test]
fn a_whole_day_ends_at_24_00() {
    let window = window(&[Day::Sun], "00:00", "24:00", "UTC");
    let open = |text: &str| window.is_open(text.parse().unwrap());
    assert!(open("2026-11-22T00:00") && open("2026-11-22T23:59"));
    assert!(!open("2026-11-21T23:59") && !open("2026-11-23T00:00"));
}

#[test]
fn the_next_opening_is_told() {
    let night = window(&[Day::Sat], "22:00", "04:00", "Europe/Berlin");
    assert_eq!(state(&night, "2026-11-17T12:00:30Z"), Err("2026-11-21T21:00:00Z".into()));
    assert_eq!(state(&night, "2026-11-21T20:59:59Z"), Err("2026-11-21T21:00:00Z".into()));
    assert_eq!(state(&night, "2026-11-21T21:00:00Z"), Ok(()));
    assert_eq!(state(&night, "2026-11-22T02:59:59Z"), Ok(()));
    assert_eq!(state(&night, "2026-11-22T03:00:00Z"), Err("2026-11-28T21:00:00Z".into()));
}

/// In the night to 2026-03-29 Berlin's clock skips 02:00 to 03:00, which is at 01:00 UTC.
#[test]
fn hours_that_the_clock_skips_are_not_there() {
    let skipped = window(&[], "02:00", "03:00", "Europe/Berlin");
    assert_eq!(state(&skipped, "2026-03-28T12:00:00Z"), Err("2026-03-30T00:00:00Z".into()));
    assert_eq!(state(&skipped, "2026-03-29T01:00:00Z"), Err("2026-03-30T00:00:00Z".into()));
    let half = window(&[], "02:30", "03:30", "Europe/Berlin");
    assert_eq!(state(&half, "2026-03-29T00:59:59Z"), Err("2026-03-29T01:00:00Z".into()));
    assert_eq!(state(&half, "2026-03-29T01:29:59Z"), Ok(()));
    assert_eq!(state(&half, "2026-03-29T01:30:00Z"), Err("2026-03-30T00:30:00Z".into()));
    let weekly = window(&[Day::Sun], "02:00", "03:00", "Europe/Berlin");
    assert_eq!(state(&weekly, "2026-03-22T12:00:00Z"), Err("2026-04-05T00:00:00Z".into()));
}

/// In the night to 2026-10-25 Berlin's clock shows 02:00 to 03:00 twice: from 00:00 UTC, and from 01:00 UTC.
#[test]
fn hours_that_the_clock_shows_twice_count_twice() {
    let twice = window(&[], "02:00", "03:00", "Europe/Berlin");
    assert_eq!(state(&twice, "2026-10-24T23:59:59Z"), Err("2026-10-25T00:00:00Z".into()));
    assert_eq!(state(&twice, "2026-10-25T00:30:00Z"), Ok(()));
    assert_eq!(state(&twice, "2026-10-25T01:59:59Z"), Ok(()));
    assert_eq!(state(&twice, "2026-10-25T02:00:00Z"), Err("2026-10-26T01:00:00Z".into()));
    let half = window(&[], "01:30", "02:30", "Europe/Berlin");
    assert_eq!(state(&half, "2026-10-25T00:30:00Z"), Err("2026-10-25T01:00:00Z".into()), "it opens again");
    assert_eq!(state(&half, "2026-10-25T01:30:00Z"), Err("2026-10-26T00:30:00Z".into()));
}

#[test]
fn times_and_zones_have_one_form() {
    assert_eq!((time("00:00"), time("09:05"), time("24:00")), (Some(0), Some(545), Some(1440)));
    for wrong in ["24:01", "25:00", "9:00", "09:60", "0900", "09:0", "+9:00", "09:00:00", "", ":"] {
        assert_eq!(time(wrong), None, "{wrong}");
    }
    assert_eq!(Zone::read("UTC"), Some(Zone::Fixed(0)));
    assert_eq!(Zone::read("+02:00"), Some(Zone::Fixed(120)));
    assert_eq!(Zone::read("-09:30"), Some(Zone::Fixed(-570)));
    assert_eq!(Zone::read("+14:00"), Some(Zone::Fixed(840)));
    for name in ["Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+1", "CET"] {
        assert_eq!(Zone::read(name), Some(Zone::Named(name.into())));
    }
    for wrong in
        ["", "+14:01", "+2", "2", "/etc/passwd", "../x", "Europe/..", "Europe//Berlin", "a b", "A/B/C/D", "Ä"]
    {
        assert_eq!(Zone::read(wrong), None, "{wrong}");
    }
    assert_eq!(Zone::read(&"a".repeat(64)), Some(Zone::Named("a".repeat(64))));
    assert_eq!(Zone::read(&"a".repeat(65)), None);
}

#[test]
fn a_window_is_shown_as_it_was_written() {
    assert_eq!(window(&[], "22:00", "04:30", "UTC").to_string(), "22:00 to 04:30 UTC");
    let weekend = window(&[Day::Sun, Day::Sat], "00:00", "24:00", "-09:30");
    assert_eq!(weekend.to_string(), "00:00 to 24:00 -09:30 on Saturday, Sunday");
    assert_eq!(window(&Day::ALL, "01:05", "02:00", "+02:00").to_string(), "01:05 to 02:00 +02:00");
    let names = Day::ALL.map(name).join(" ");
    assert_eq!(names, "Monday Tuesday Wednesday Thursday Friday Saturday Sunday");
}

#[test]
fn a_window_that_says_nothing_is_none() {
    let read = |from: &str, to: &str, zone: &str| {
        let (from, to, time_zone) = (from.into(), to.into(), zone.into());
        Window::read(&spec::Window { days: vec![], from, to, time_zone })
    };
    assert_eq!(read("10:00", "10:00", "UTC"), None);
    assert_eq!(read("24:00", "10:00", "UTC"), None);
    assert_eq!(read("10:00", "x", "UTC"), None);
    assert_eq!(read("10:00", "11:00", "here or there"), None);
}

#[test]
fn a_zone_is_resolved_by_its_offset_or_by_the_database() {
    let nothing = |_: &str| -> Result<TimeZone, String> { Err("no database".into()) };
    let zone = Zone::Fixed(120).resolve(nothing).unwrap();
    assert_eq!(zone.to_datetime(at("2026-11-17T10:00:00Z")), "2026-11-17T12:00".parse().unwrap());
    assert_eq!(Zone::Named("X".into()).resolve(nothing), Err("no database".into()));
    assert_eq!(Zone::Named("X".into()).resolve(|_| Ok(berlin())), Ok(berlin()));
}

fn days() -> impl Strategy<Value = Vec<Day>> {
    proptest::sample::subsequence(Day::ALL.to_vec(), 0..=7)
}

proptest! {
    /// Where it says that it opens, it is open, was not a minute before, and was not in between.
    #[test]
    fn an_opening_is_an_edge(days in days(), from in 0u16..1440, long in 1u16..1440, second in 0i64..31_536_000) {
        let window = Window {
            days: if days.is_empty() { Day::ALL.into() } else { days.into_iter().collect() },
            from,
            to: (from + long) % DAY,
            zone: Zone::Fixed(0),
        };
        prop_assume!(window.from != window.to);
        let now = Timestamp::from_second(1_767_225_600 + second).unwrap();
        let is_open = |at: Timestamp| window.is_open(berlin().to_datetime(at));
        match window.state(now, &berlin()) {
            WindowState::Open => prop_assert!(is_open(now)),
            WindowState::Closed { opens: Some(opens) } => {
                prop_assert!(opens > now && is_open(opens) && !is_open(now));
                prop_assert!(!is_open(opens - SignedDuration::from_secs(1)));
                let hours = opens.duration_since(now).as_hours();
                prop_assert!(hours <= 24 * AHEAD, "{hours}");
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }
}
