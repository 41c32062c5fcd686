//! Applications that are made up: what is in them.

use crate::pen::Pen;

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

    pub fn pick(&mut self, among: &[&'static str]) -> &'static str {
        among[self.roll(among.len())]
    }

    /// Once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
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
        Pen::new(dice).document(self)
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
