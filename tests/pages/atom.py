"""Reads an Atom feed from standard input, as RFC 4287 has it, and prints its entries as JSON. Fails on what is missing."""

import datetime
import json
import sys
import urllib.parse
from xml.etree import ElementTree

ATOM = "{http://www.w3.org/2005/Atom}"


def text(element, name):
    found = element.findall(ATOM + name)
    assert len(found) == 1 and found[0].text, f"{element.tag} has {len(found)} {name}"
    return found[0].text


def iri(value):
    parts = urllib.parse.urlsplit(value)
    assert parts.scheme in ("http", "https") and parts.netloc, f"{value} is not absolute"
    return value


def time(value):
    assert datetime.datetime.fromisoformat(value).tzinfo, f"{value} has no time zone"
    return value


def common(element):
    return {"id": iri(text(element, "id")), "title": text(element, "title"), "updated": time(text(element, "updated"))}


feed = ElementTree.parse(sys.stdin.buffer).getroot()
assert feed.tag == ATOM + "feed", feed.tag
common(feed)
# The author of the feed is that of its entries.
assert text(feed.find(ATOM + "author"), "name")
links = {link.get("rel", "alternate"): iri(link.get("href")) for link in feed.findall(ATOM + "link")}
assert {"self", "alternate"} <= links.keys(), links
entries = []
for entry in feed.findall(ATOM + "entry"):
    time(text(entry, "published"))
    iri(entry.find(ATOM + "link").get("href"))
    entries.append(common(entry) | {"summary": text(entry, "summary")})
ids = [entry["id"] for entry in entries]
assert len(ids) == len(set(ids)), ids
print(json.dumps(entries))
