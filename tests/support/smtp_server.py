"""A mail server whose behaviour tests control, by lines of JSON.

    python smtp_server.py FOLDER [--cert FILE --key FILE [--tls]] [--login USER PASSWORD]

It listens on a free port of loopback and writes every mail to FOLDER, unchanged. Commands on standard input:
{"at": STAGE, "do": ACTION, "times": N}, {"release": STAGE}, {"down": true}, {"down": false}. A stage is the last thing that the
server received: connect, auth, mail, rcpt, body (part of the mail), data (all of it, and it is written). An action is "hold" (until
the stage is released), "cut" (closes the connection) or a reply such as "451 busy". Events on standard output: the port, each
stage that is reached, and the content of each mail.
"""

import argparse
import asyncio
import collections
import email
import email.policy
import json
import logging
import pathlib
import ssl
import sys
import warnings

from aiosmtpd.smtp import SMTP, AuthResult

# Errors are intended: tests ask for them.
logging.disable()
warnings.simplefilter("ignore")

arguments = argparse.ArgumentParser()
arguments.add_argument("folder", type=pathlib.Path)
arguments.add_argument("--cert")
arguments.add_argument("--key")
arguments.add_argument("--tls", action="store_true", help="from the first byte on, not by STARTTLS")
arguments.add_argument("--login", nargs=2)
options = arguments.parse_args()

actions = {}  # by stage: the action, and how many times remain
releases = collections.defaultdict(asyncio.Event)
open_connections = set()


def report(**event):
    print(json.dumps(event), flush=True)


async def reached(stage, server):
    """Carries out the action of a stage; returns the reply, or None for the default."""
    report(at=stage)
    action, times = actions.get(stage, (None, 0))
    if times == 0:
        return None
    actions[stage] = (action, times - 1)
    if action == "hold":
        releases[stage].clear()
        await releases[stage].wait()
        return None
    if action == "cut":
        server.transport.abort()
        raise ConnectionResetError
    return action


class Handler:
    def __init__(self):
        self.count = 0

    async def handle_MAIL(self, server, session, envelope, address, options):
        reply = await reached("mail", server)
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return reply or "250 OK"

    async def handle_RCPT(self, server, session, envelope, address, options):
        reply = await reached("rcpt", server)
        envelope.rcpt_tos.append(address)
        return reply or "250 OK"

    async def handle_DATA(self, server, session, envelope):
        self.count += 1
        path = options.folder / f"{self.count:04}.eml"
        path.write_bytes(envelope.original_content)
        mail = email.message_from_bytes(envelope.original_content, policy=email.policy.default)
        part = lambda kind: mail.get_body((kind,)).get_content()
        headers = [[name, str(value)] for name, value in mail.items()]
        defects = [str(defect) for part in mail.walk() for defect in part.defects]
        tls = session.ssl or server.transport.get_extra_info("ssl_object")
        report(
            mail=str(path), to=envelope.rcpt_tos, sender=envelope.mail_from, tls=tls is not None, login=bool(session.authenticated),
            headers=headers, text=part("plain"), html=part("html"), defects=defects,
        )
        return await reached("data", server) or "250 OK"


class Server(SMTP):
    async def _handle_client(self):
        open_connections.add(self)
        try:
            reply = await reached("connect", self)
            if reply:
                await self.push(reply)
                self.transport.close()
            else:
                await super()._handle_client()
        except ConnectionResetError:
            pass
        finally:
            open_connections.discard(self)

    async def smtp_DATA(self, argument):
        if actions.get("body", (None, 0))[1]:
            await self.push("354 go ahead")
            await self._reader.read(64)
            await reached("body", self)
        await super().smtp_DATA(argument)


def authenticate(server, session, envelope, mechanism, data):
    given = [data.login.decode(), data.password.decode()]
    return AuthResult(success=given == options.login, handled=False)


def context():
    if not options.cert:
        return None
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(options.cert, options.key)
    return tls


async def main():
    handler, tls = Handler(), context()
    by_starttls = tls if not options.tls else None
    settings = {
        "hostname": "mail.test",
        "enable_SMTPUTF8": True,
        "tls_context": by_starttls,
        "require_starttls": by_starttls is not None,
        "authenticator": authenticate if options.login else None,
        "auth_required": bool(options.login),
        "auth_require_tls": by_starttls is not None,
    }
    loop = asyncio.get_running_loop()

    async def listen(port):
        wrapped = tls if options.tls else None
        return await loop.create_server(lambda: Server(handler, **settings), "127.0.0.1", port, ssl=wrapped)

    listening = await listen(0)
    port = listening.sockets[0].getsockname()[1]
    report(port=port)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        if "at" in command:
            actions[command["at"]] = (command["do"], command["times"])
        if "release" in command:
            actions.pop(command["release"], None)
            releases[command["release"]].set()
        if command.get("down") is True:
            listening.close()
            for server in list(open_connections):
                server.transport.abort()
        if command.get("down") is False:
            listening = await listen(port)
        report(done=command)


asyncio.run(main())
