//! An event as commands print it.

use anabranch::Event;

/// An event on one line.
pub(crate) fn event_line(event: &Event) -> String {
    let (position, time) = (event.position(), event.recorded_at());
    let (category, stream, version) = (event.category(), event.stream_id(), event.version());
    let tags: String = event.tags().map(|tag| format!(" #{tag}")).collect();
    let (name, data) = (event.event_type(), event.data_json());
    format!("{position:>8}  {time:.3}  {category}:{stream}@{version}  {name} {data}{tags}")
}
