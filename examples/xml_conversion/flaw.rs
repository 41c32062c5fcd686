//! What can be wrong with a document, on purpose, and the reason that the contract must give for it.

use crate::application::{Application, Dice};
use crate::pen::APPLICATION;

/// What is wrong with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    NoBirthDate,
    BirthDateInWords,
    NoSuchDay,
    TwoBirthDates,
    EmptyName,
    AmountWithComma,
    ConsentPerhaps,
    UnknownElement,
    NoApplicant,
    OldNamespace,
    WrongEndTag,
    CutOff,
    WrongEncoding,
    EntityBomb,
    ExternalEntity,
    UnknownEntity,
    ControlCharacter,
    TooDeep,
    TooManyElements,
    LongText,
    HugeText,
}

/// One document of so many has a flaw, each kind in turn.
const ONE_OF: u64 = 23;

impl Flaw {
    pub const ALL: [Self; 21] = [
        Self::NoBirthDate,
        Self::BirthDateInWords,
        Self::NoSuchDay,
        Self::TwoBirthDates,
        Self::EmptyName,
        Self::AmountWithComma,
        Self::ConsentPerhaps,
        Self::UnknownElement,
        Self::NoApplicant,
        Self::OldNamespace,
        Self::WrongEndTag,
        Self::CutOff,
        Self::WrongEncoding,
        Self::EntityBomb,
        Self::ExternalEntity,
        Self::UnknownEntity,
        Self::ControlCharacter,
        Self::TooDeep,
        Self::TooManyElements,
        Self::LongText,
        Self::HugeText,
    ];

    /// What is wrong with the document of a number, if anything.
    fn of(number: u64) -> Option<Self> {
        let turn = number.is_multiple_of(ONE_OF).then_some(number / ONE_OF);
        turn.map(|turn| Self::ALL[turn as usize % Self::ALL.len()])
    }

    /// How the reason begins with which the document must fail.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoBirthDate => "/application/applicant/birthDate: is missing",
            Self::BirthDateInWords => {
                "/application/applicant/birthDate: \"31.02.1990\" is not a date (YYYY-MM-DD)"
            }
            Self::NoSuchDay => {
                "/application/applicant/birthDate: \"1990-02-31\" is not a date (YYYY-MM-DD)"
            }
            Self::TwoBirthDates => "/application/applicant/birthDate[2]: is there more than once",
            Self::EmptyName => "/application/applicant/p:name/p:last: is empty",
            Self::AmountWithComma => {
                "/application/incomes/income[2]/amount: \"1.234,50\" is not a decimal number"
            }
            Self::ConsentPerhaps => "/application/consent: \"perhaps\" is not true or false",
            Self::UnknownElement => "/application/applicant/hobby: is not in the contract",
            Self::NoApplicant => {
                "/application/applicant: is there 0 times, and at least 1 is required"
            }
            Self::OldNamespace => "/{urn:example:application:1}application: is not in the contract",
            Self::WrongEndTag => "/application/applicant/p:name: not well-formed in line ",
            Self::CutOff => "/application/incomes/income: not well-formed",
            Self::WrongEncoding => "/: the encoding is declared as \"UTF-16\", and it is UTF-8",
            Self::EntityBomb | Self::ExternalEntity => {
                "/: a document type definition (DTD) is refused"
            }
            Self::UnknownEntity => {
                "/application/incomes/income/employer: the entity \"company\" is not known"
            }
            Self::ControlCharacter => {
                "/application/consent: not well-formed: the character U+0001 is in it"
            }
            Self::TooDeep => {
                "/application/processing/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d: nested deeper than 16 elements"
            }
            Self::TooManyElements => {
                "/application/attachments/attachment[328]: there are more than 1000 elements"
            }
            Self::LongText => "/application/remark: has more than 20000 characters",
            Self::HugeText => "/: has 400",
        }
    }

    /// A document that has it.
    fn xml(self, reference: &str) -> String {
        let before = match self {
            Self::WrongEncoding => "<?xml version=\"1.0\" encoding=\"UTF-16\"?>\n".to_owned(),
            Self::EntityBomb => {
                let lol =
                    |n: u32| format!("<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10));
                let lols: String = (1..10).map(lol).collect();
                format!("<!DOCTYPE application [<!ENTITY l0 \"lol\">{lols}]>\n")
            }
            Self::ExternalEntity => {
                "<!DOCTYPE application [<!ENTITY l9 SYSTEM \"file:///etc/passwd\">]>\n".to_owned()
            }
            _ => String::new(),
        };
        let namespace = match self {
            Self::OldNamespace => "urn:example:application:1",
            _ => APPLICATION,
        };
        let birth_date = match self {
            Self::NoBirthDate => "",
            Self::BirthDateInWords => "<birthDate>31.02.1990</birthDate>",
            Self::NoSuchDay => "<birthDate>1990-02-31</birthDate>",
            Self::TwoBirthDates => {
                "<birthDate>1990-02-28</birthDate>\n    <birthDate>1990-02-28</birthDate>"
            }
            _ => "<birthDate>1990-02-28</birthDate>",
        };
        let last = match self {
            Self::EmptyName => "<p:last> </p:last>",
            Self::WrongEndTag => "<p:last>Smith</p:last></p:nam>",
            _ => "<p:last>Smith</p:last>",
        };
        let hobby = if self == Self::UnknownElement { "<hobby>chess</hobby>" } else { "" };
        let applicant = match self {
            Self::NoApplicant => String::new(),
            _ => format!(
                "  <applicant>\n    <p:name><p:first>Ana</p:first>{last}</p:name>\n    \
                 {birth_date}{hobby}\n  </applicant>\n"
            ),
        };
        let employer = match self {
            Self::UnknownEntity => "Smith &company; Sons",
            Self::EntityBomb | Self::ExternalEntity => "&l9;",
            _ => "Smith &amp; Sons",
        };
        let amount = if self == Self::AmountWithComma { "1.234,50" } else { "1234.50" };
        let consent = match self {
            Self::ConsentPerhaps => "perhaps",
            Self::ControlCharacter => "true&#1;",
            _ => "true",
        };
        let more = match self {
            Self::TooDeep => {
                // Ignored or not: nobody follows it down.
                let (down, up) = ("<d>".repeat(10_000), "</d>".repeat(10_000));
                format!("  <processing>{down}{up}</processing>\n")
            }
            Self::TooManyElements => {
                let many = "<attachment file='a.pdf' bytes='1'/>".repeat(3_000);
                format!("  <attachments>{many}</attachments>\n")
            }
            Self::LongText => format!("  <remark>{}</remark>\n", "na ".repeat(10_000)),
            Self::HugeText => format!("  <remark>{}</remark>\n", "na ".repeat(133_333)),
            _ => String::new(),
        };
        let incomes = format!(
            "  <incomes>\n    <income kind=\"salary\"><employer>{employer}</employer>\
             <amount>99.00</amount></income>\n    <income kind=\"rent\"><amount>{amount}</amount>\
             </income>\n  </incomes>\n"
        );
        let mut xml = format!(
            "{before}<application xmlns=\"{namespace}\" xmlns:p=\"urn:example:person:1\" \
             reference=\"{reference}\" submitted=\"2026-01-31\">\n{applicant}  \
             <consent>{consent}</consent>\n{incomes}{more}</application>\n"
        );
        if self == Self::CutOff {
            xml.truncate(xml.find("<amount>").unwrap_or(0));
        }
        xml
    }
}

/// A document, and what must come of it.
pub struct Made {
    pub xml: String,
    pub expected: Result<Application, Flaw>,
}

/// The document of a number. The same seed makes the same one.
pub fn make(seed: u64, number: u64) -> Made {
    let mut dice = Dice::new(seed, number);
    let application = Application::new(number, &mut dice);
    match Flaw::of(number) {
        Some(flaw) => Made { xml: flaw.xml(&application.reference), expected: Err(flaw) },
        None => Made { xml: application.xml(&mut dice), expected: Ok(application) },
    }
}
