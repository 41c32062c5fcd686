//! The replica sets of a file, ready to run.

use crate::file::{By, Effects, File, Pool, Problem, Problems, Program, Run, Set, Webhook};
use crate::made_set::{
    MadeSet, pool_code, print_of, program_print, sent_to, started, webhook_code,
};
use crate::program::{
    Command, OutsideProgramPool, ProgramPool, ProgramProjection, Programs, greets,
};
use crate::schedule::Schedules;
use crate::sql::Compiler;
use crate::webhook::{WebhookPool, endpoint};
use anabranch::webhook::{Endpoint, WebhookSet};
use anabranch::workpool::{PoolSet, PoolSettings, TaskError};
use anabranch::{Failure, Log, ReplicaSet, Retry};

/// Makes the replica sets of a file.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    /// Starts the programs of the file.
    pub programs: Programs,
    /// Whether this is for a test: what fails is tried once and then parked, whatever its policy, so that it is seen; and
    /// one thing happens after the other, so that it happens in the same order each time.
    pub is_test: bool,
}

impl Sets {
    /// The replica sets of a file, for the database of a log.
    pub fn of(&self, file: &File, log: &Log) -> Result<Vec<MadeSet>, Problems> {
        let (sets, problems) = self.with_problems(file, log);
        Problems::none_in(&file.source, problems)?;
        Ok(sets)
    }

    /// The same, as far as they can be made, and what is wrong with them.
    pub(crate) fn with_problems(&self, file: &File, log: &Log) -> (Vec<MadeSet>, Vec<Problem>) {
        let database = log.database();
        let dialect = database.dialect();
        let database = Some(dialect.name());
        let mut compiler = Compiler::new(&file.source, database);
        let sets = file.sets.iter().map(|set| self.set(file, set, log, &mut compiler));
        (sets.collect(), compiler.problems)
    }

    /// Starts each program of a file once and exchanges greetings with it, so that one that cannot run is known before
    /// there is an event for it. Says what is wrong, where the program is named.
    pub async fn greet(&self, file: &File, database: &str) -> Vec<Problem> {
        let mut all = Vec::new();
        for set in &file.sets {
            let programs = set.programs.iter().map(|one| (&one.consumer.name, "program", &one.run));
            let pools = set.pools.iter();
            let pools = pools.filter_map(|one| Some((&one.name, "pool", one.program()?)));
            for (name, kind, run) in programs.chain(pools) {
                let mut found = Vec::new();
                let command = command((file, set), run, &mut found);
                if found.is_empty()
                    && let Some(program) = run.command.first()
                    && let Err(said) =
                        greets(&self.programs, database, &name.text, kind, &command).await
                {
                    found.push(Problem::new(program.span.clone(), said));
                }
                all.append(&mut found);
            }
        }
        all
    }

    /// A webhook of a file by its name, if there is one: to send something to its endpoint by hand.
    pub fn webhook_of(
        file: &File,
        name: &str,
        log: &Log,
    ) -> Result<Option<anabranch::webhook::Webhook>, Problems> {
        let mut all = file.sets.iter().flat_map(|set| &set.webhooks);
        let Some(webhook) = all.find(|webhook| webhook.consumer.name.text == name) else {
            return Ok(None);
        };
        let mut problems = Vec::new();
        let to = endpoint(&webhook.target, &mut problems);
        Problems::none_in(&file.source, problems)?;
        Ok(Some(Self::default().hook(webhook, log, to)))
    }

    /// What must be stored before a file is run: the next times of its schedules.
    pub async fn begin(file: &File, log: &Log) -> Result<(), TaskError> {
        for set in &file.sets {
            Schedules::begin(set, log).await?;
        }
        Ok(())
    }

    fn set(&self, file: &File, of: &Set, log: &Log, compiler: &mut Compiler<'_>) -> MadeSet {
        let mut made = MadeSet::new(of, self.lanes(of));
        let rule = log.hash_rule();
        let mut set = ReplicaSet::new(of.name.text.as_str())
            .lanes(self.lanes(of))
            .tuning(of.tuning)
            .rollout(of.rollout)
            .grace(of.grace);
        if of.fail_fast {
            set = set.fail_fast();
        }
        for projection in &of.projections {
            let mut compiled = compiler.projection(projection);
            let code = compiled.code(compiler.lexical());
            let settings = compiled.settings.retry(self.retry(projection.consumer.retry));
            compiled.settings = settings.code(code.as_str());
            made.has(&projection.consumer, &code, rule, "");
            set = set.projection(compiled);
        }
        for program in &of.programs {
            let (program, print) = self.program((file, of), program, log, compiler);
            made.consumers.push(print);
            set = set.projection(program);
        }
        for webhook in &of.webhooks {
            let Webhook { consumer, target, batch, concurrency, max_per_second } = webhook;
            let how = format!("{batch} {concurrency:?} {max_per_second:?} {}", sent_to(target));
            made.has(consumer, &webhook_code(webhook), rule, &how);
            set = self.webhook(webhook, log, compiler, set);
        }
        for pool in &of.pools {
            let settings = self.pool_settings(pool, self.lanes(of));
            match &pool.by {
                By::Program(run) => {
                    let command = command((file, of), run, &mut compiler.problems);
                    made.has_pool(pool, &started(&command));
                    set = self.pool(pool, command, settings, log, set);
                }
                By::Webhook(target) => {
                    let name = &pool.name.text;
                    made.has_pool(pool, &sent_to(target));
                    let to = self.recorded(name, endpoint(target, &mut compiler.problems));
                    let pool = WebhookPool::new(name, settings, to).with_code(pool_code(pool));
                    set = set.outside_pool(pool);
                }
            }
        }
        if let Some(schedules) = Schedules::of(of, log) {
            made.consumers.push(schedules.print());
            set = set.outside_pool(schedules);
        }
        made.set = set;
        made
    }

    fn program(
        &self,
        of: (&File, &Set),
        program: &Program,
        log: &Log,
        compiler: &mut Compiler<'_>,
    ) -> (ProgramProjection, (String, String)) {
        let Program { consumer, run } = program;
        let hooks = compiler.hooks(consumer);
        let code = hooks.fingerprint(program_print("program", run), compiler.lexical()).finish();
        let (name, partition) = (consumer.name.text.clone(), consumer.partition.clone());
        let command = command(of, run, &mut compiler.problems);
        let settings = consumer.settings.clone().retry(self.retry(consumer.retry));
        let print = print_of(consumer, &code, log.hash_rule(), &started(&command));
        let program = ProgramProjection::new(&self.programs, log, name, partition, command)
            .with_settings(settings.code(code))
            .with_hooks(hooks);
        (program, print)
    }

    fn webhook(
        &self,
        webhook: &Webhook,
        log: &Log,
        compiler: &mut Compiler<'_>,
        set: ReplicaSet,
    ) -> ReplicaSet {
        let consumer = &webhook.consumer;
        let to = endpoint(&webhook.target, &mut compiler.problems);
        let to = self.recorded(&consumer.name.text, to);
        set.webhook(self.hook(webhook, log, to))
    }

    /// A webhook with its endpoint.
    pub(crate) fn hook(
        &self,
        webhook: &Webhook,
        log: &Log,
        to: Endpoint,
    ) -> anabranch::webhook::Webhook {
        let consumer = &webhook.consumer;
        let (name, partition) = (consumer.name.text.clone(), consumer.partition.clone());
        let settings = consumer.settings.clone().retry(self.retry(consumer.retry));
        let settings = settings.code(webhook_code(webhook));
        let mut made = anabranch::webhook::Webhook::new(log, name, partition, to)
            .settings(settings)
            .batch(webhook.batch);
        if let Some(messages) = webhook.concurrency {
            made = made.concurrency(messages);
        }
        if self.is_test {
            return made.concurrency(1);
        }
        match webhook.max_per_second {
            Some(messages) => made.max_per_second(f64::from(messages)),
            None => made,
        }
    }

    /// In a test nothing is sent, and all of it is noted.
    fn recorded(&self, consumer: &str, to: Endpoint) -> Endpoint {
        let Some(recorder) = self.programs.recorder().cloned() else { return to };
        let consumer = consumer.to_owned();
        to.recorded(move |_, body| recorder.delivers(&consumer, body))
    }

    fn pool_settings(&self, pool: &Pool, lanes: usize) -> PoolSettings {
        let in_flight = pool.in_flight.filter(|_| !self.is_test).unwrap_or(lanes);
        let mut settings = PoolSettings::default().in_flight_per_process(in_flight);
        settings = settings.retry(self.retry(pool.retry));
        if let Some(tasks) = pool.max_parallelism {
            settings = settings.max_parallelism(tasks);
        }
        if let Some(time) = pool.keep {
            settings = settings.keep(time);
        }
        if let Some(tasks) = pool.batch_size {
            settings = settings.batch_size(tasks);
        }
        settings
    }

    fn pool(
        &self,
        pool: &Pool,
        command: Command,
        settings: PoolSettings,
        log: &Log,
        set: ReplicaSet,
    ) -> ReplicaSet {
        let (name, programs) = (pool.name.text.as_str(), &self.programs);
        let code = pool_code(pool);
        match pool.effects {
            Effects::Database => {
                let pool = ProgramPool::new(programs, log, name, settings, command);
                set.pool(pool.with_code(code))
            }
            Effects::Outside => {
                let pool = OutsideProgramPool::new(programs, log, name, settings, command);
                set.outside_pool(pool.with_code(code))
            }
        }
    }

    fn retry(&self, retry: Retry) -> Retry {
        if self.is_test { retry.attempts(1).then(Failure::Park) } else { retry }
    }

    fn lanes(&self, set: &Set) -> usize {
        if self.is_test { 1 } else { set.lanes }
    }
}

/// The command of a program of a set, and why it cannot be started.
pub(crate) fn command(
    (file, set): (&File, &Set),
    run: &Run,
    problems: &mut Vec<Problem>,
) -> Command {
    let words = run.command.iter().map(|word| word.text.as_str());
    let mut command = Command::new(words, file.source.directory());
    (command.timeout, command.grace) = (run.timeout, run.grace.unwrap_or(set.grace));
    let before = problems.len();
    for (name, setting) in &run.env {
        match setting.resolve() {
            Ok(value) => command.env.push((name.clone(), value)),
            Err(problem) => problems.push(problem),
        }
    }
    // Its PATH may be among what is missing.
    if problems.len() == before
        && let (Err(said), Some(first)) = (command.check(), run.command.first())
    {
        problems.push(Problem::new(first.span.clone(), said));
    }
    command
}
