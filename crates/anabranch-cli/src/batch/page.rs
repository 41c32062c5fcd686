//! The answers for a page: an array of null (success) or an error, one for each row.

use anabranch::batch::Record;
use anabranch::running::Again;
use anabranch::{HandlerError, HandlerResult};

/// A page as it is handed over.
pub(super) fn rows(page: &[Record]) -> String {
    serde_json::Value::Array(page.iter().map(Record::to_json).collect()).to_string()
}

/// How each row of a page went.
pub(super) fn outcomes(rows: usize, answer: HandlerResult<Vec<u8>>) -> Vec<HandlerResult> {
    match answer.and_then(|answer| read(rows, &answer)) {
        Ok(errors) => errors
            .into_iter()
            // That is the answer for this row.
            .map(|error| error.map_or(Ok(()), |error| Err(HandlerError::for_good(error))))
            .collect(),
        // Nobody answered for any of them.
        Err(error) => {
            let said = error.to_string();
            let of_each = || match error.again() {
                Again::AsSet => HandlerError::new(said.clone()),
                Again::After(wait) => HandlerError::try_after(wait, said.clone()),
                Again::Never => HandlerError::for_good(said.clone()),
            };
            (0..rows).map(|_| Err(of_each())).collect()
        }
    }
}

fn read(rows: usize, answer: &[u8]) -> HandlerResult<Vec<Option<String>>> {
    let errors: Vec<Option<String>> = serde_json::from_slice(answer).map_err(|error| {
        HandlerError::for_good(format!("the answer is no JSON array of null or \"error\": {error}"))
    })?;
    match errors.len() {
        answers if answers == rows => Ok(errors),
        answers => {
            Err(HandlerError::for_good(format!("there are {answers} answers for {rows} rows")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(answer: &str) -> Vec<String> {
        let outcomes = outcomes(2, Ok(answer.as_bytes().to_vec()));
        outcomes
            .iter()
            .map(|o| o.as_ref().map_or_else(ToString::to_string, |()| "ok".into()))
            .collect()
    }

    #[test]
    fn each_row_has_its_answer_and_a_wrong_answer_is_everybodys() {
        assert_eq!(said("[null, \"no name\"]"), ["ok", "no name"]);
        assert_eq!(said("[null]"), ["there are 1 answers for 2 rows"; 2]);
        assert!(said("oh")[1].contains("no JSON array"));
    }
}
