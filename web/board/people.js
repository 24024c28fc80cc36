// Jockeys and trainers as links.

import * as address from "./address.js";
import { element } from "./dom.js";

/** The key of a person in the API, where the card has an identifier. It counts within the time zone of the card. */
export const keyOf = ({ area }, id) => `${area.replace(/[/:;]/g, "-")};${id}`;

/** A person whose page has a key, or else is found by the name. */
export function person(kind, name, key) {
  const href = key ? address.ofPerson(kind, key) : address.ofName(kind, name);
  return element("a", { href }, name);
}

/** The jockey and the trainer of a runner of a race; lines break between them. Results have no identifiers. */
export function people(race, { horse_no, jockey, trainer }) {
  const card = race.runners.get(horse_no);
  const key = (name, onCard, id) => (id && name === onCard ? keyOf(race, id) : "");
  const links = [
    jockey && person("jockeys", jockey, key(jockey, card?.jockey, card?.jockey_id)),
    trainer && person("trainers", trainer, key(trainer, card?.trainer, card?.trainer_id)),
  ].filter(Boolean);
  for (const link of links) link.textContent = link.textContent.replaceAll(" ", "\u00a0");
  return links.length === 2 ? [links[0], " · ", links[1]] : links;
}
