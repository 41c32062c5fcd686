//! Applications that are made up: what is in them, and how somebody might write that as XML.

use quick_xml::escape::escape;
use std::fmt::Write;

/// The namespaces that the documents use.
pub const APPLICATION: &str = "urn:example:application:2";
const PERSON: &str = "urn:example:person:1";

/// Numbers that look random and are the same for the same seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64, number: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    /// Below a limit.
    pub fn roll(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }

    fn pick(&mut self, among: &[&'static str]) -> &'static str {
        among[self.roll(among.len())]
    }

    /// Once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.roll(times) == 0
    }

    fn date(&mut self, from: usize, years: usize) -> String {
        let (year, month, day) = (from + self.roll(years), 1 + self.roll(12), 1 + self.roll(28));
        format!("{year}-{month:02}-{day:02}")
    }
}

/// What is in an application. Fields that are `None` are left out of the document.
#[derive(Clone, Debug)]
pub struct Application {
    pub reference: String,
    pub submitted: String,
    pub channel: Option<&'static str>,
    pub consent: bool,
    pub remark: Option<&'static str>,
    pub applicants: Vec<Applicant>,
    pub incomes: Vec<Income>,
    pub attachments: Vec<Attachment>,
}

#[derive(Clone, Debug)]
pub struct Applicant {
    pub role: Option<&'static str>,
    pub first: &'static str,
    pub last: &'static str,
    pub title: Option<&'static str>,
    pub birth_date: String,
    pub children: Option<usize>,
    pub addresses: Vec<Address>,
}

#[derive(Clone, Debug)]
pub struct Address {
    pub kind: Option<&'static str>,
    pub street: String,
    pub postcode: String,
    pub city: &'static str,
    pub country: Option<&'static str>,
    pub since: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Income {
    pub kind: &'static str,
    pub employer: Option<&'static str>,
    pub cents: usize,
    pub currency: Option<&'static str>,
    pub taxable: Option<bool>,
}

#[derive(Clone, Debug)]
pub struct Attachment {
    pub file: String,
    pub bytes: usize,
    pub description: Option<&'static str>,
}

const FIRST: [&str; 10] =
    ["Ana", "Émile", "Jürgen", "Mary Ann", "Nguyễn", "Olga", "Søren", "Tom", "Zoë", "李"];
const LAST: [&str; 8] = [
    "Çelik",
    "D'Angelo",
    "Garcia Marquez",
    "Müller-Lüdenscheidt",
    "O'Neill",
    "Smith",
    "Ødegård",
    "王",
];
const STREETS: [&str; 5] =
    ["Am \"Alten\" Markt", "Baker Street", "Große Straße", "Rue de l'Église", "Via Roma"];
const CITIES: [&str; 5] = ["Aßlar", "Bad Münder", "Lyon", "St. Gallen", "Łódź"];
const EMPLOYERS: [&str; 4] = ["Ampère & Sons", "<3 Flowers", "City of Łódź", "Miller's \"Mill\""];
const REMARKS: [&str; 3] = [
    "Please call after 6 pm.",
    "if a < b && b > c then \"ok\"",
    "First line.\n\n  Second line, indented.",
];
const DESCRIPTIONS: [&str; 3] = ["Pay slip", "Rent: 100 < 200 & \"warm\"", "Scan\nof two pages"];

impl Application {
    /// What is in the application of a number.
    pub fn new(number: u64, dice: &mut Dice) -> Self {
        let maybe = |dice: &mut Dice, among: &[&'static str]| {
            if dice.once_in(2) { Some(dice.pick(among)) } else { None }
        };
        let applicants = (0..1 + usize::from(dice.once_in(4)))
            .map(|place| Applicant {
                role: (place > 0).then_some("partner"),
                first: dice.pick(&FIRST),
                last: dice.pick(&LAST),
                title: maybe(dice, &["Dr.", "Prof."]),
                birth_date: dice.date(1935, 70),
                children: if dice.once_in(2) { Some(dice.roll(6)) } else { None },
                addresses: (0..1 + dice.roll(3)).map(|_| Address::new(dice)).collect(),
            })
            .collect();
        let incomes = (0..dice.roll(5)).map(|_| Income {
            kind: dice.pick(&["pension", "rent", "salary"]),
            employer: maybe(dice, &EMPLOYERS),
            cents: dice.roll(900_000),
            currency: maybe(dice, &["CHF", "EUR"]),
            taxable: if dice.once_in(3) { Some(dice.once_in(2)) } else { None },
        });
        let incomes = incomes.collect();
        let attachments = (0..dice.roll(4)).map(|place| Attachment {
            file: format!("{number}-{}.pdf", place + 1),
            bytes: dice.roll(5_000_000),
            description: maybe(dice, &DESCRIPTIONS),
        });
        Self {
            reference: format!("A-{number:08}"),
            attachments: attachments.collect(),
            submitted: dice.date(2024, 3),
            channel: maybe(dice, &["app", "web"]),
            consent: dice.once_in(2),
            remark: maybe(dice, &REMARKS),
            applicants,
            incomes,
        }
    }

    /// How many rows it is in each table of the contract.
    pub fn rows(&self) -> [usize; 5] {
        let addresses = self.applicants.iter().map(|it| it.addresses.len()).sum();
        [1, self.applicants.len(), addresses, self.incomes.len(), self.attachments.len()]
    }

    /// The document. People write the same thing in many ways; the dice choose one.
    pub fn xml(&self, dice: &mut Dice) -> String {
        let mut pen = Pen::new(dice);
        pen.application(self);
        pen.text
    }
}

impl Address {
    fn new(dice: &mut Dice) -> Self {
        Self {
            kind: if dice.once_in(2) { Some("work") } else { None },
            street: format!("{} {}", dice.pick(&STREETS), 1 + dice.roll(200)),
            postcode: format!("{:05}", dice.roll(100_000)),
            city: dice.pick(&CITIES),
            country: if dice.once_in(3) { Some(dice.pick(&["CH", "FR", "PL"])) } else { None },
            since: if dice.once_in(3) { Some(dice.date(1990, 30)) } else { None },
        }
    }
}

/// A way to write XML.
struct Pen<'d> {
    dice: &'d mut Dice,
    text: String,
    /// The prefix of the application's names, with its colon, or nothing; and that of the person's.
    prefix: &'static str,
    person: &'static str,
    newline: &'static str,
    quote: char,
}

impl<'d> Pen<'d> {
    fn new(dice: &'d mut Dice) -> Self {
        let (prefix, person) = (dice.pick(&["", "", "a:"]), dice.pick(&["p:", "per:", "ns1:"]));
        let (newline, quote) =
            (dice.pick(&["\n", "\r\n", ""]), if dice.once_in(3) { '\'' } else { '"' });
        Self { dice, text: String::new(), prefix, person, newline, quote }
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
