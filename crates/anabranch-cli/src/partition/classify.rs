//! Which strategy fits, from five questions.

use anabranch::partitioning::{Answers, Recommendation, classify};
use anabranch_terminal::output;
use anabranch_terminal::{say, say_on};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

/// Recommend a partition strategy from five yes/no answers
///
/// Asks on a terminal if no answer is given; otherwise an answer that is missing means no.
#[derive(Args)]
pub(crate) struct Classify {
    /// Does each effect depend on one entity only?
    #[arg(long, value_name = "YES|NO", hide_possible_values = true)]
    one_entity: Option<Answer>,

    /// Must the events of one customer stay in order across entities?
    #[arg(long, value_name = "YES|NO", hide_possible_values = true)]
    customer_order: Option<Answer>,

    /// Do the events of one business process, which share a correlation, belong together?
    #[arg(long, value_name = "YES|NO", hide_possible_values = true)]
    process: Option<Answer>,

    /// Must all events be handled in one total order?
    #[arg(long, value_name = "YES|NO", hide_possible_values = true)]
    total_order: Option<Answer>,

    /// Do events of different keys write the same row, such as a sum for each day?
    #[arg(long, value_name = "YES|NO", hide_possible_values = true)]
    shared_rows: Option<Answer>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
enum Answer {
    Yes,
    No,
}

impl Classify {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let given = [
            self.one_entity,
            self.customer_order,
            self.process,
            self.total_order,
            self.shared_rows,
        ];
        let answers = if given.iter().any(Option::is_some) {
            given.map(|answer| answer == Some(Answer::Yes))
        } else if std::io::stdin().is_terminal() {
            ask()?
        } else {
            say!(
                "error: there are no answers and nobody to ask; give --one-entity, \
                 --customer-order, --process, --total-order or --shared-rows yes or no"
            );
            return Ok(ExitCode::from(2));
        };
        let [one_entity, customer_order, process, total_order, shared_rows] = answers;
        let answers = Answers { one_entity, customer_order, process, total_order, shared_rows };
        let Recommendation { strategy, lanes, reason, caution } = classify(answers);
        if self.json {
            output::json(&json!({
                "strategy": strategy, "lanes": lanes, "reason": reason, "caution": caution
            }))?;
        } else {
            output::line(format_args!("strategy  {strategy}"))?;
            output::line(format_args!("lanes     {lanes} to begin with"))?;
            output::line(format_args!("reason    {reason}"))?;
            if let Some(caution) = caution {
                output::line(format_args!("caution   {caution}"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn ask() -> anyhow::Result<[bool; 5]> {
    let questions = [
        "Does each effect depend on one entity only?",
        "Must the events of one customer stay in order across entities?",
        "Do the events of one business process, which share a correlation, belong together?",
        "Must all events be handled in one total order?",
        "Do events of different keys write the same row, such as a sum for each day?",
    ];
    let mut answers = [false; 5];
    let mut lines = std::io::stdin().lock().lines();
    for (question, answer) in questions.iter().zip(&mut answers) {
        *answer = loop {
            say_on!("{question} [y/n] ");
            let Some(line) = lines.next() else { anyhow::bail!("the questions are not answered") };
            match line?.trim().to_lowercase().as_str() {
                "y" | "yes" => break true,
                "n" | "no" => break false,
                _ => {}
            }
        };
    }
    Ok(answers)
}
