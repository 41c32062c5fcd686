//! Where something stands in a trace: the W3C trace context.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// How long a `traceparent` of version 00 is.
const LENGTH: usize = 55;

/// The flags of version 00: sampled, and random. Those that it does not know are not handed on.
const KNOWN_FLAGS: u8 = 0b11;

/// A W3C trace context: the trace that something belongs to, and the span in it that caused it.
///
/// It is read as the [specification](https://www.w3.org/TR/trace-context/) has it: lower-case hexadecimal digits, and
/// neither id all zero. Of a version later than 00 the parts are taken that 00 has, and of the flags those that it knows.
/// What is not so is no context.
///
/// ```
/// use anabranch_core::TraceContext;
/// let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let context: TraceContext = text.parse()?;
/// assert!(context.is_sampled());
/// assert_eq!(context.to_string(), text);
/// assert!("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01".parse::<TraceContext>().is_err());
/// # Ok::<(), anabranch_core::BadTraceContext>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: [u8; 16],
    span: [u8; 8],
    flags: u8,
}

/// A text is no W3C trace context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is no W3C trace context: that is 00-TRACE-SPAN-FLAGS with 32, 16 and 2 lower-case hexadecimal digits, and \
     neither id is all zero"
)]
pub struct BadTraceContext;

impl TraceContext {
    /// A context of its parts; nothing if an id is all zero. Flags that version 00 does not know are left out.
    #[must_use]
    pub fn new(trace: [u8; 16], span: [u8; 8], flags: u8) -> Option<Self> {
        let flags = flags & KNOWN_FLAGS;
        (trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span, flags })
    }

    /// The id of the trace.
    #[must_use]
    pub fn trace_id(&self) -> [u8; 16] {
        self.trace
    }

    /// The id of the span that is the parent of what comes next.
    #[must_use]
    pub fn span_id(&self) -> [u8; 8] {
        self.span
    }

    /// The flags; the lowest bit says that the trace is sampled.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Whether whoever began the trace records it.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }
}

impl FromStr for TraceContext {
    type Err = BadTraceContext;

    fn from_str(text: &str) -> Result<Self, BadTraceContext> {
        let bytes = text.as_bytes();
        let dashes = |place: &usize| bytes[*place] == b'-';
        if bytes.len() < LENGTH || ![2, 35, 52].iter().all(dashes) {
            return Err(BadTraceContext);
        }
        let (mut version, mut trace, mut span, mut flags) = ([0; 1], [0; 16], [0; 8], [0; 1]);
        let read = fill(&mut version, &bytes[..2])
            .and_then(|()| fill(&mut trace, &bytes[3..35]))
            .and_then(|()| fill(&mut span, &bytes[36..52]))
            .and_then(|()| fill(&mut flags, &bytes[53..55]));
        let is_whole = match (version, bytes.get(LENGTH)) {
            ([255], _) => false,
            ([0], more) => more.is_none(),
            // What a later version adds.
            (_, more) => more.is_none_or(|byte| *byte == b'-'),
        };
        let read = read.filter(|()| is_whole);
        read.and_then(|()| Self::new(trace, span, flags[0])).ok_or(BadTraceContext)
    }
}

impl Serialize for TraceContext {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceContext {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(|error| serde::de::Error::custom(format_args!("`{text}`: {error}")))
    }
}

/// Reads bytes of lower-case digits.
fn fill(bytes: &mut [u8], digits: &[u8]) -> Option<()> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(())
}

impl fmt::Display for TraceContext {
    /// As the header `traceparent` has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (u128::from_be_bytes(self.trace), u64::from_be_bytes(self.span));
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", self.flags)
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceContext({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_not_by_the_rules_is_refused() {
        assert!(GOOD.parse::<TraceContext>().is_ok());
        let bad = [
            "",
            "00",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.more",
            "0g-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
            "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
            " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333é-01",
        ];
        for text in bad {
            assert_eq!(text.parse::<TraceContext>(), Err(BadTraceContext), "{text}");
        }
    }

    #[test]
    fn of_a_later_version_the_known_parts_are_taken() {
        for later in
            [GOOD.replacen("00", "01", 1), format!("{}-more", GOOD.replacen("00", "cc", 1))]
        {
            assert_eq!(later.parse::<TraceContext>().unwrap().to_string(), GOOD, "{later}");
        }
        let flags: TraceContext = GOOD.replace("-01", "-ff").parse().unwrap();
        assert_eq!(flags.to_string(), GOOD.replace("-01", "-03"));
    }

    proptest! {
        #[test]
        fn a_context_comes_back_as_it_was(trace: [u8; 16], span: [u8; 8], flags: u8) {
            if let Some(context) = TraceContext::new(trace, span, flags) {
                prop_assert_eq!(context.to_string().parse(), Ok(context));
                let json = serde_json::to_string(&context).unwrap();
                prop_assert_eq!(serde_json::from_str::<TraceContext>(&json).unwrap(), context);
                prop_assert_eq!((context.trace_id(), context.span_id()), (trace, span));
                prop_assert_eq!((context.flags(), context.is_sampled()), (flags & 3, flags % 2 == 1));
            }
        }

        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = text.parse::<TraceContext>();
        }
    }
}
