//! The last events, and the next ones.

use crate::event_line::event_line;
use crate::target::Target;
use anabranch::{Event, EventStream, Log, Position, Query, StreamId};
use anabranch_terminal::output;
use clap::Args;
use std::process::ExitCode;

/// Print the last events, and with -f each new one as it is stored
///
/// Creates and migrates nothing.
#[derive(Args)]
pub(crate) struct Tail {
    #[command(flatten)]
    target: Target,

    /// How many of the last events
    #[arg(short = 'n', long, default_value_t = 10, value_name = "COUNT")]
    lines: usize,

    /// Begin after this position instead: 0 prints the whole log
    #[arg(long, value_name = "POSITION", conflicts_with = "lines")]
    after: Option<u64>,

    /// Go on with each new event, until Ctrl-C
    #[arg(short, long)]
    follow: bool,

    /// Only this stream, as CATEGORY:ID
    #[arg(long, value_name = "STREAM", conflicts_with_all = ["types", "tags", "follow", "after"])]
    stream: Option<StreamId>,

    /// Only events of this type; may be repeated, any of them counts
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,

    /// Only events with this tag; may be repeated, all of them count
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Tail {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let log = self.target.connect().await?;
        if let Some(stream) = &self.stream {
            let last = log.read_stream(stream).backwards().limit(self.lines).collect().await?;
            last.iter().rev().try_for_each(|event| self.print(event))?;
            return Ok(ExitCode::SUCCESS);
        }
        let query = self.query();
        let after = match self.after {
            Some(after) => Position::new(after),
            None => self.print_last(&log, &query).await?,
        };
        if self.follow {
            let events = log.subscribe(query, after);
            tokio::select! {
                printed = self.print_all(events) => printed?,
                interrupted = tokio::signal::ctrl_c() => interrupted?,
                // The next event, which would show it, may never come.
                () = output::closed() => {}
            }
        } else if self.after.is_some() {
            self.print_all(log.read(query).after(after).events()).await?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn query(&self) -> Query {
        let query = match self.types.as_slice() {
            [] => Query::all(),
            types => Query::types(types),
        };
        if self.tags.is_empty() { query } else { query.tagged(&self.tags) }
    }

    /// Prints the last events and returns where the next ones begin.
    async fn print_last(&self, log: &Log, query: &Query) -> anyhow::Result<Position> {
        let head = log.head().await?;
        let beyond = Position::new(head.get() + 1);
        let last = log.read(query.clone()).before(beyond).limit(self.lines).collect().await?;
        last.iter().rev().try_for_each(|event| self.print(event))?;
        Ok(head)
    }

    async fn print_all(&self, mut events: EventStream) -> anyhow::Result<()> {
        while let Some(event) = events.next().await {
            self.print(&event?)?;
            if output::is_closed() {
                break;
            }
        }
        Ok(())
    }

    fn print(&self, event: &Event) -> anyhow::Result<()> {
        match self.json {
            true => output::json(event),
            false => output::line(event_line(event)),
        }
    }
}
