// Reads every resource with a client of the types that openapi-typescript made of /openapi.json.
import createClient from "openapi-fetch";
import type { components, paths } from "./openapi.js";

declare const process: { argv: [string, string, string, string, string] };

type Schemas = components["schemas"];

const [, , baseUrl, key, date] = process.argv;
const client = createClient<paths>({
  baseUrl,
  headers: { "X-API-Key": key },
});

/** The data of a response, or its error as an exception. */
async function read<T>(reading: Promise<{ data?: T; error?: unknown }>): Promise<T> {
  const { data, error } = await reading;
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
}

const race = { params: { path: { date, race_number: 1 } } };
const horse = { params: { path: { horse_no: "H1" } } };
const day = { params: { path: { date } } };

const board: Schemas["OddsBoard"] = await read(client.GET("/api/v1/odds/{date}/{race_number}", race));
const history: Schemas["OddsHistory"] = await read(client.GET("/api/v1/odds/{date}/{race_number}/history", race));
const sources: Schemas["OddsSources"] = await read(client.GET("/api/v1/odds/{date}/{race_number}/sources", race));
const racecard: Schemas["Racecard"] = await read(client.GET("/api/v1/racecards/{date}", day));
const results: Schemas["MeetingResults"] = await read(client.GET("/api/v1/results/{date}", day));
const result: Schemas["RaceResult"] = await read(client.GET("/api/v1/results/{date}/{race_number}", race));
const revisions: Schemas["ResultRevisions"] = await read(
  client.GET("/api/v1/results/{date}/{race_number}/revisions", race),
);
const profile: Schemas["HorseProfile"] = await read(client.GET("/api/v1/horses/{horse_no}", horse));
const form: Schemas["HorseForm"] = await read(client.GET("/api/v1/horses/{horse_no}/form", horse));
const list: Schemas["MeetingList"] = await read(client.GET("/api/v1/meetings"));
const readiness: Schemas["Readiness"] = await read(client.GET("/readyz"));

// The types are narrow: these lines do not compile if a price may be missing or a status is any string.
// @ts-expect-error
const unknown: Schemas["RaceStatus"] = "running";
const status: "result" = board.status === "result" ? board.status : fail(board);
const prices: (number | null)[] = board.runners.flatMap(({ win, place, opening, previous }) => [
  win,
  place,
  opening,
  previous,
]);
const positions: number[] = form.form.map(({ position }) => position);
const outcomes: string[] = result.unplaced.map(({ outcome }) => outcome);

// The prices of the second race move while its board is read.
const openRace = { params: { path: { date, race_number: 2 } } };
const PATIENCE_MS = 60_000;
const boards = new Map<number, Schemas["OddsBoard"]>();
for (const end = Date.now() + PATIENCE_MS; boards.size < 3;) {
  if (Date.now() > end) fail([...boards.values()]);
  const moving = await read(client.GET("/api/v1/odds/{date}/{race_number}", openRace));
  boards.set(moving.seq, moving);
}
const states = [...boards.values()].map(({ status, runners }) => {
  const state: "open" = status === "open" ? status : fail(status);
  const [first, ...others] = runners;
  if (!first || first.win === null || first.win === first.previous) fail(first);
  return [
    state,
    first?.opening,
    ...others.map((runner) => [runner.win, runner.state, runner.opening, runner.previous]),
  ];
});
const moves = new Set([...boards.values()].map(({ runners }) => runners[0]?.win));

function fail(value: unknown): never {
  throw new Error(`unexpected: ${JSON.stringify(value)}`);
}

// What was read, with its types checked, for the test to compare.
console.log(
  JSON.stringify({
    status,
    prices,
    positions,
    outcomes,
    race: racecard.races[0]?.status,
    meeting: results.meeting_status,
    statement: revisions.revisions[0]?.statement,
    quotes: history.history.length,
    source: sources.sources[0]?.source,
    horse: profile.horse_name,
    venue: list.meetings[0]?.venue_code,
    phase: readiness.phase,
    open: states,
    moves: moves.size > 1,
  }),
);
