//! Errors of handlers on their way through other errors.

use super::*;
use anyhow::Context;

type Boxed = Box<dyn Error + Send + Sync>;

fn handler(fails: impl FnOnce() -> HandlerResult) -> (String, Again) {
    let error = fails().unwrap_err();
    (error.to_string(), error.again())
}

#[test]
fn whatever_fails_fails_a_handler() {
    fn bails() -> anyhow::Result<()> {
        anyhow::bail!("no route to {}", "the bank")
    }
    let said = |fails: fn() -> HandlerResult| handler(fails).0;
    assert_eq!(said(|| Err("text")?), "text");
    assert_eq!(said(|| Err("text".to_owned())?), "text");
    assert_eq!(said(|| Ok(None.ok_or("nothing there")?)), "nothing there");
    assert_eq!(said(|| Ok(bails()?)), "no route to the bank");
    assert_eq!(said(|| Ok(bails().context("paying")?)), "paying: no route to the bank");
    assert_eq!(said(|| Err(Boxed::from("boxed"))?), "boxed");
    assert_eq!(said(|| Err("x".parse::<u8>().unwrap_err())?), "invalid digit found in string");
    assert_eq!(said(|| Err(HandlerError::new("itself"))?), "itself");
}

#[test]
fn what_it_says_about_the_next_attempt_comes_through_other_errors() {
    let again = Again::After(Duration::from_secs(9));
    let busy = || {
        let cause: Boxed = "x".parse::<u8>().unwrap_err().into();
        HandlerError::try_after(Duration::from_secs(9), cause)
    };
    let digit = "invalid digit found in string".to_owned();
    let through_anyhow = || -> anyhow::Result<()> { Err(busy().into_error())? };
    let through_a_box = || -> Result<(), Boxed> { Err(busy().into_error())? };
    assert_eq!(handler(|| Ok(through_anyhow()?)), (digit.clone(), again));
    assert_eq!(handler(|| Ok(through_a_box()?)), (digit.clone(), again));
    let there = handler(|| Ok(through_anyhow().context("a").context("b")?));
    assert_eq!(there, (format!("b: a: {digit}"), again));
    let twice = || -> anyhow::Result<()> {
        Err(HandlerError::from(through_anyhow().unwrap_err()).into_error())?
    };
    assert_eq!(handler(|| Ok(twice()?)), (digit.clone(), again));
    // Who wraps it and says otherwise is heard.
    let outer = || Err(HandlerError::for_good(through_anyhow().unwrap_err()));
    assert_eq!(handler(outer), (digit, Again::Never));
    // Nothing is added to one that says nothing.
    let plain = HandlerError::new("plain").into_error();
    assert!(plain.source().is_none());
}

#[test]
fn what_the_log_has_refused_is_known_through_other_errors() {
    let conflict = || AppendError::ConditionFailed {
        query: anabranch_core::Query::all(),
        after: anabranch_core::Position::START,
        position: anabranch_core::Position::new(1),
    };
    let is_answer = |fails: &dyn Fn() -> HandlerResult| fails().unwrap_err().is_answer();
    assert!(is_answer(&|| Err(conflict())?));
    assert!(is_answer(&|| Err(Boxed::from(conflict()))?));
    assert!(is_answer(&|| Ok(Err::<(), _>(conflict()).context("the copy")?)));
    assert!(is_answer(&|| Err(HandlerError::for_good(conflict()))));
    assert!(is_answer(&|| Err(anyhow::Error::new(HandlerError::from(conflict()).into_error()))?));
    assert!(!is_answer(&|| Err(AppendError::Store(anabranch_core::StoreError::Closed))?));
    assert!(!is_answer(&|| Err(conflict().to_string())?));
}

#[test]
fn that_the_handler_cannot_run_is_known_through_other_errors() {
    let unable = || HandlerError::unable("no python3");
    let through_anyhow = || -> anyhow::Result<()> { Err(unable().into_error())? };
    let told = HandlerError::from(through_anyhow().context("risk").unwrap_err());
    assert_eq!((told.to_string(), told.is_unable()), ("risk: no python3".to_owned(), true));
    assert!(HandlerError::from(through_anyhow().unwrap_err()).is_unable());
    assert!(HandlerError::from(Boxed::from(unable().into_error())).is_unable());
    // Who wraps it and says otherwise is heard.
    let wait = Duration::from_secs(1);
    assert!(!HandlerError::for_good(unable().into_error()).is_unable());
    assert!(!HandlerError::try_after(wait, unable().into_error()).is_unable());
    assert!(!HandlerError::new("no python3").is_unable());
}

#[test]
fn it_is_an_error_among_others() {
    let digit: HandlerResult<u8> = (|| Ok("x".parse::<u8>()?))();
    let error = digit.unwrap_err();
    assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
    let main = || -> Result<(), Box<dyn Error>> { Err(HandlerError::for_good("no"))? };
    assert_eq!(main().unwrap_err().to_string(), "no");
    let told = anyhow::Error::new(HandlerError::for_good("no such card").into_error());
    assert_eq!(format!("{told:#}"), "no such card: not to be tried again");
}
