// Publishes a whole meeting: horses, cards, odds that move, withdrawals, results, amendments.
// Retries unacknowledged events under the same id. Exits with 1 if one was rejected or never acknowledged.
import { createHash, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { JetStreamApiError, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { PermissionViolationError, connect } from "@nats-io/transport-node";

const { RAILBIRD_NATS = "nats://127.0.0.1:4222", RAILBIRD_RETRIES = "15" } = process.env;
const retries = Number(RAILBIRD_RETRIES); // 15 take a minute or more, enough for an election or a restart of NATS.
const window = 16; // Events in flight: railbird recognises a repeated quote among the latest 16 of its race.
const date = process.argv[2] ?? new Date().toLocaleDateString("sv");
const fields = [
  ["PAPER LANTERN", "SLOW TIDE", "NIGHT FERRY"],
  ["LONG DIVISION", "PLAIN SONG", "SUNDIAL", "TIN BOX"],
];
const end = (why) => {
  console.error(why);
  process.exit(1);
};

// Differs for an id that is used again on another subject, or by another feeder.
const messageId = (subject, { source, id }) =>
  createHash("sha256").update(`${subject}\n${source}\n${id}`).digest("hex");

// NATS looks for an id on all subjects: where another feeder has taken this one, it does not store the event.
async function publishOne({ js, jsm }, subject, event) {
  const publish = (msgID) => js.publish(subject, JSON.stringify(event), { msgID, timeout: 5000 });
  const ack = await publish(messageId(subject, event));
  if (!ack.duplicate) return ack;
  const stored = await jsm.direct.getMessage("RACING", { seq: ack.seq });
  return stored?.subject === subject ? ack : publish(randomUUID());
}

// Publishes events, a window at a time, and retries those that were not acknowledged, in order.
async function publish(log, events) {
  for (let failures = 0; events.length > 0;) {
    const sent = events.slice(0, window),
      missing = [];
    const answers = await Promise.allSettled(sent.map(([subject, event]) => publishOne(log, subject, event)));
    for (const [i, { value: ack, reason: error }] of answers.entries()) {
      const [subject, { type }] = sent[i];
      if (ack) console.log(ack.seq, subject, type, ack.duplicate ? "known" : "new");
      else if (error.cause instanceof PermissionViolationError) end(`not permitted: ${error.message}`);
      else if (error instanceof JetStreamApiError || failures === retries)
        end(`not acknowledged: ${type} on ${subject}: ${error.message}`);
      else missing.push(sent[i]);
    }
    if (missing.length > 0) {
      console.log(`retrying: ${missing.length}`);
      await sleep((0.5 + Math.random() / 2) * Math.min(100 * 2 ** failures, 5000));
    }
    [events, failures] = [[...missing, ...events.slice(window)], missing.length > 0 ? failures + 1 : 0];
  }
}

// The events of a race, in groups that may be in flight together. Only quotes may be: they are ordered by their time.
function* eventGroups(number, names) {
  const off = Date.parse(`${date}T12:30:00+08:00`) + number * 30 * 60_000;
  const race = `${date}.ST.${number}`,
    key = { date, venue: "ST", race_number: number };
  const horses = names.map((horse_name, i) => ({ horse_no: `EX_${number}${i + 1}`, horse_name }));
  const people = { jockey: "A. Quill", trainer: "T. Marlowe" };
  const event = (subject, kind, seconds, data) => {
    const time = new Date(off + 1000 * seconds);
    const fact = { specversion: "1.0", source: "feeder.mjs", type: `racing.${kind}.v1`, time, data };
    // The id is a hash of the content, so a second run repeats the same events.
    return [`racing.${subject}`, { ...fact, id: createHash("sha256").update(JSON.stringify(fact)).digest("hex") }];
  };
  const quotes = (begin, end) =>
    Array.from({ length: end - begin }, (_, i) => begin + i).map((tick) => {
      const prices = horses.map(({ horse_no }, i) => ({ horse_no, win: (20 * (i + 1) + ((tick * (i + 1)) % 9)) / 10 }));
      return event(`odds.${race}`, "odds.quoted", 5 * tick - 1000, { ...key, runners: prices });
    });

  for (const horse of horses)
    yield [
      event(`horse.${horse.horse_no}`, "horse.registered", -86400, {
        ...horse,
        country_of_origin: "NZ",
        colour: "Bay",
        sex: "Gelding",
        foaled: "2020-10-02",
        trainer: "T. Marlowe",
        owner: "The Example Syndicate",
      }),
    ];
  const runners = horses.map((horse, i) => ({ ...horse, ...people, number: i + 1, draw: i + 1, weight: 133 - i }));
  yield [
    event(`race.${race}`, "race.declared", -86400, {
      ...key,
      race_name: `HANDICAP ${number}`,
      distance: 1200,
      class: "4",
      going: "GOOD",
      runners,
    }),
  ];
  yield [event(`race.${race}`, "race.status_changed", -1100, { ...key, status: "open" })];
  yield quotes(0, 100);
  const { horse_no } = horses.pop();
  yield [event(`race.${race}`, "runner.withdrawn", -500, { ...key, horse_no, reason: "Lame" })];
  yield quotes(100, 200);
  yield [event(`race.${race}`, "race.status_changed", 0, { ...key, status: "off" })];
  const ran = horses.map((horse, i) => ({ ...horse, ...people, finish_time: `1:09.${i + 1}0`, win_odds: 2 * (i + 1) }));
  for (const [revision, reason] of [
    [1, ""],
    [2, "Placings amended after an inquiry"],
  ]) {
    const placed = ran.map((runner, i) => ({ ...runner, position: i + 1, stakes: Math.floor(9000 / (i + 1)) }));
    const data = { ...key, revision, status: "official", reason, runners: placed };
    yield [event(`result.${race}`, "result.declared", 600 * revision, data)];
    ran.unshift(...ran.splice(0, 2).reverse());
  }
}

const { host: servers, username, password } = new URL(RAILBIRD_NATS);
const user = username && { user: decodeURIComponent(username), pass: decodeURIComponent(password) };
const nc = await connect({
  servers,
  ...user,
  maxReconnectAttempts: -1,
  reconnectTimeWait: 500,
  reconnectJitter: 1000,
}).catch((error) => end(`no connection: ${error.message}`));
const log = { js: jetstream(nc), jsm: await jetstreamManager(nc, { checkAPI: false }) };
// A source that does not do so for 20 seconds is shown as down.
const showAlive = () => nc.publish("alive.feeder.mjs");
showAlive();
const alive = setInterval(showAlive, 10_000);
for (const [i, names] of fields.entries()) for (const events of eventGroups(i + 1, names)) await publish(log, events);
clearInterval(alive);
await nc.close();
