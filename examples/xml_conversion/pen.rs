//! Writes an application as XML, as somebody might: with prefixes or without, CDATA, comments, odd whitespace.

use crate::application::{Address, Applicant, Application, Attachment, Dice, Income};
use quick_xml::escape::escape;
use std::fmt::Write;

/// The namespaces that the documents use.
pub const APPLICATION: &str = "urn:example:application:2";
const PERSON: &str = "urn:example:person:1";

/// A way to write XML.
pub struct Pen<'d> {
    dice: &'d mut Dice,
    text: String,
    /// The prefix of the application's names, with its colon, or nothing; and that of the person's.
    prefix: &'static str,
    person: &'static str,
    newline: &'static str,
    quote: char,
}

impl<'d> Pen<'d> {
    pub fn new(dice: &'d mut Dice) -> Self {
        let (prefix, person) = (dice.pick(&["", "", "a:"]), dice.pick(&["p:", "per:", "ns1:"]));
        let (newline, quote) =
            (dice.pick(&["\n", "\r\n", ""]), if dice.once_in(3) { '\'' } else { '"' });
        Self { dice, text: String::new(), prefix, person, newline, quote }
    }

    pub fn document(mut self, it: &Application) -> String {
        self.application(it);
        self.text
    }

    fn put(&mut self, text: &str) {
        self.text += text;
    }

    /// A new line, or whatever people leave between elements.
    fn gap(&mut self) {
        let gap = match self.dice.roll(12) {
            0 => "\t \n\n ",
            1 => "<!-- checked by hand -->",
            2 => "<?printer page=\"2\"?>",
            _ => self.newline,
        };
        self.put(gap);
    }

    fn attribute(&mut self, name: &str, value: &str) {
        let quote = self.quote;
        let _ = write!(self.text, " {name}={quote}{}{quote}", escape(value));
    }

    /// `<name`, to be gone on with.
    fn begin(&mut self, name: &str) {
        self.gap();
        let _ = write!(self.text, "<{}{name}", self.prefix);
    }

    fn close(&mut self, name: &str) {
        self.gap();
        let space = if self.dice.once_in(8) { " " } else { "" };
        let _ = write!(self.text, "</{}{name}{space}>", self.prefix);
    }

    /// An element with text that may be written with other whitespace.
    fn words(&mut self, name: &str, value: &str) {
        self.begin(name);
        self.put(">");
        let (before, after) = if self.dice.once_in(6) { ("\n    ", " \t") } else { ("", "") };
        let value =
            if self.dice.once_in(6) { value.replace(' ', "\n  ") } else { value.to_owned() };
        self.put(before);
        self.content(&value);
        let _ = write!(self.text, "{after}</{}{name}>", self.prefix);
    }

    /// Text as it is: escaped, in CDATA, or by numbers.
    fn content(&mut self, value: &str) {
        match self.dice.roll(4) {
            0 => {
                let _ = write!(self.text, "<![CDATA[{value}]]>");
            }
            1 => {
                for c in value.chars() {
                    match c {
                        '&' | '<' | '"' => {
                            let _ = write!(self.text, "&#x{:X};", u32::from(c));
                        }
                        c if c.is_ascii() => self.text.push(c),
                        c => {
                            let _ = write!(self.text, "&#{};", u32::from(c));
                        }
                    }
                }
            }
            _ => self.put(&escape(value)),
        }
    }

    fn application(&mut self, it: &Application) {
        if self.dice.once_in(2) {
            self.put("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        }
        let _ = write!(self.text, "<{}application", self.prefix);
        let declares = if self.prefix.is_empty() { "xmlns" } else { "xmlns:a" };
        self.attribute(declares, APPLICATION);
        let person = format!("xmlns:{}", self.person.trim_end_matches(':'));
        self.attribute(&person, PERSON);
        self.attribute("reference", &it.reference);
        if self.dice.once_in(5) {
            self.attribute("xmlns:x", "http://www.w3.org/2001/XMLSchema-instance");
            self.attribute("x:schemaLocation", "urn:example:application:2 application.xsd");
        }
        self.attribute("submitted", &it.submitted);
        if let Some(channel) = it.channel {
            self.attribute("channel", channel);
        }
        self.put(">");
        if self.dice.once_in(5) {
            self.begin("processing");
            self.put("><step by='scanner'>deskew</step>");
            self.close("processing");
        }
        for applicant in &it.applicants {
            self.applicant(applicant);
        }
        self.words("consent", if it.consent { "true" } else { "0" });
        self.incomes(&it.incomes);
        self.attachments(&it.attachments);
        if let Some(remark) = it.remark {
            self.begin("remark");
            self.put(">");
            self.content(remark);
            let _ = write!(self.text, "</{}remark>", self.prefix);
        }
        self.close("application");
        self.gap();
    }

    fn applicant(&mut self, it: &Applicant) {
        self.begin("applicant");
        if let Some(role) = it.role {
            self.attribute("role", role);
        }
        self.put(">");
        self.gap();
        let outer = std::mem::replace(&mut self.prefix, self.person);
        self.begin("name");
        if let Some(title) = it.title {
            self.attribute("title", title);
        }
        self.put(">");
        self.words("first", it.first);
        self.words("last", it.last);
        self.close("name");
        self.prefix = outer;
        self.words("birthDate", &it.birth_date);
        match it.children {
            Some(children) => self.words("children", &children.to_string()),
            None if self.dice.once_in(2) => {
                self.begin("children");
                self.put("/>");
            }
            None => {}
        }
        for address in &it.addresses {
            self.address(address);
        }
        self.close("applicant");
    }

    fn address(&mut self, it: &Address) {
        self.begin("address");
        if let Some(kind) = it.kind {
            self.attribute("kind", kind);
        }
        if let Some(since) = &it.since {
            self.attribute("since", since);
        }
        self.put(">");
        self.words("street", &it.street);
        self.words("postcode", &it.postcode);
        self.words("city", it.city);
        if let Some(country) = it.country {
            self.words("country", country);
        }
        self.close("address");
    }

    fn incomes(&mut self, incomes: &[Income]) {
        self.begin("incomes");
        self.put(">");
        for income in incomes {
            self.begin("income");
            self.attribute("kind", income.kind);
            if let Some(taxable) = income.taxable {
                self.attribute("taxable", if taxable { "1" } else { "false" });
            }
            self.put(">");
            if let Some(employer) = income.employer {
                self.words("employer", employer);
            }
            self.begin("amount");
            if let Some(currency) = income.currency {
                self.attribute("currency", currency);
            }
            let amount = format!("{}.{:02}", income.cents / 100, income.cents % 100);
            let _ = write!(self.text, ">{amount}</{}amount>", self.prefix);
            self.close("income");
        }
        self.close("incomes");
    }

    fn attachments(&mut self, attachments: &[Attachment]) {
        self.begin("attachments");
        if attachments.is_empty() {
            self.put("/>");
            return;
        }
        self.put(">");
        for attachment in attachments {
            self.begin("attachment");
            self.attribute("file", &attachment.file);
            self.attribute("bytes", &attachment.bytes.to_string());
            self.put(">");
            if let Some(description) = attachment.description {
                self.content(description);
            }
            let _ = write!(self.text, "</{}attachment>", self.prefix);
        }
        self.close("attachments");
    }
}
