/** The seeded faults: plausible slips on the hot path, in durability and in access, and the tests that should find each. */

/**
 * `text` stands exactly once in `file` and is replaced by `replacement`. `tests` are the files that should find it, the quickest
 * first; `named` narrows them to tests whose name matches. `why` says what the fault would do.
 */
export type Fault = {
  name: string;
  why: string;
  file: string;
  text: string;
  replacement: string;
  tests: string[];
  named?: string;
};

export class FaultError extends Error {
  override readonly name = 'FaultError';
}

/** The source with the fault in it. Throws `FaultError` when the text is not there, or there more than once. */
export function putInto(source: string, { name, file, text, replacement }: Fault): string {
  const places = source.split(text).length - 1;
  if (places !== 1)
    throw new FaultError(
      `"${name}": its text is ${places} times in ${file}, not once. Bring bench/mutate/faults.ts up to date.`,
    );
  return source.replace(text, () => replacement);
}

const HOT_PATH: Fault[] = [
  {
    name: 'answers before the commit',
    why: 'A write is acknowledged that a crash then loses.',
    file: 'workers/writer/lane.ts',
    text: 'outcomes.push(asker.closed ? null : this.#perform(database, request));',
    replacement: `outcomes.push(asker.closed ? null : this.#perform(database, request));
      if (!asker.closed) reply({ asker, request }, outcomes.at(-1));`,
    tests: ['workers/writer/lane.test.ts'],
  },
  {
    name: 'fails the whole group with one statement',
    why: 'An error reaches callers whose write was good.',
    file: 'workers/writer/lane.ts',
    text: 'if (ran === 1) {',
    replacement: 'if (ran >= 1) {',
    tests: ['workers/writer/lane.test.ts'],
  },
  {
    name: 'keeps the transaction of a connection that ended',
    why: 'The lane of the app stays taken until the lease is over.',
    file: 'workers/writer/lane.ts',
    text: "if (this.#lease?.asker === asker) this.#endLease('rolled back');",
    replacement: '',
    tests: ['workers/writer/lane.test.ts', 'workers/writer/writer.test.ts'],
  },
  {
    name: 'sends again what the lost writer had begun',
    why: 'A write is done twice when its writer is replaced.',
    file: 'protocol/wire/db-client.ts',
    text: 'const lastBegun = begun < 0 ? (this.#left?.lastId ?? 0) : begun;',
    replacement: 'const lastBegun = Math.min(begun, 0);',
    tests: ['protocol/wire/db-client.test.ts', 'workers/writer/writer.test.ts'],
  },
  {
    name: 'takes frames of any length',
    why: 'One peer fills the memory of another process.',
    file: 'protocol/wire/codec.ts',
    text: `      const length = bytes.readUInt32BE(offset);
      if (length > this.#maxBytes)`,
    replacement: `      const length = bytes.readUInt32BE(offset);
      if (length < 0)`,
    tests: ['protocol/wire/codec.test.ts'],
  },
  {
    name: 'commits before the statements that nobody awaited',
    why: 'A transaction commits a part of what its handler wrote.',
    file: 'workers/handler/database.ts',
    text: '        await settle(tx);\n',
    replacement: '',
    tests: ['workers/handler/database.test.ts'],
  },
  {
    name: 'repeats actions on the replacement of a thread',
    why: 'A write is done twice when its thread dies.',
    file: 'supervisor/tree/actor/call.ts',
    text: 'return this.request.kind === ToolKind.query;',
    replacement: 'return this.request.kind >= 0;',
    tests: ['supervisor/tree/actor/actor.test.ts'],
  },
  {
    name: 'has no limit for the calls that wait',
    why: 'An app that is called too often fills the memory of the supervisor.',
    file: 'supervisor/tree/actor/mailbox.ts',
    text: 'if (this.size >= this.#limit) return false;',
    replacement: '',
    tests: ['supervisor/tree/actor/mailbox.test.ts'],
  },
  {
    name: 'lets calls expire while answers wait to be read',
    why: 'After a pause of the process, calls that were answered are told that their time was up.',
    file: 'supervisor/tree/actor/deadlines.ts',
    text: 'if (this.#waited) return;',
    replacement: '',
    tests: ['supervisor/tree/actor/deadlines.test.ts'],
  },
  {
    name: 'ends the thread that was used last',
    why: 'Apps in use are started again and again when there are too many.',
    file: 'supervisor/tree/actor/admission.ts',
    text: 'other.lastUsed < oldest.lastUsed',
    replacement: 'other.lastUsed > oldest.lastUsed',
    tests: ['supervisor/tree/actor/admission.test.ts'],
  },
  {
    name: 'blames every call in flight for a death',
    why: 'Good calls are refused as poison.',
    file: 'supervisor/tree/actor/poison.ts',
    text: 'if (!only || inFlight.length > 1) return;',
    replacement: 'if (!only) return;',
    tests: ['supervisor/tree/actor/poison.test.ts'],
  },
  {
    name: 'gives a reset no number',
    why: 'A page that was away during a reset shows old data for good.',
    file: 'supervisor/dispatch/changes.ts',
    text: '    ring.skip();',
    replacement: '    ring.clear();',
    tests: ['supervisor/dispatch/changes.test.ts'],
  },
  {
    name: 'replays one event too few unnoticed',
    why: 'A page misses a change and is not told to fetch everything.',
    file: 'supervisor/dispatch/change-ring.ts',
    text: 'if (!(missed >= 0 && missed <= kept)) return undefined;',
    replacement: 'if (!(missed >= 0 && missed <= kept + 1)) return undefined;',
    tests: ['supervisor/dispatch/change-ring.test.ts'],
  },
  {
    name: 'gives compressed copies the tag of the file',
    why: 'A cache answers with bytes that are encoded otherwise than its client was told.',
    file: 'supervisor/http/conditional.ts',
    text: "return encoding === 'identity' ? etag : ",
    replacement: 'return encoding.length > 0 ? etag : ',
    tests: ['supervisor/http/conditional.test.ts', 'supervisor/pages/pages.test.ts'],
  },
  {
    name: 'tells retries apart by the order of their members',
    why: 'A retry that another serializer wrote is refused instead of answered.',
    file: 'supervisor/dispatch/idempotency.ts',
    text: 'Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))',
    replacement: 'Object.fromEntries(Object.entries(member))',
    tests: ['supervisor/dispatch/idempotency.test.ts'],
  },
  {
    name: 'forgets idempotency keys after half a day',
    why: 'A retry that comes within the promised 24 hours is done twice.',
    file: 'protocol/limits.ts',
    text: 'idempotencyMs: 24 * HOUR,',
    replacement: 'idempotencyMs: 12 * HOUR,',
    tests: ['supervisor/dispatch/idempotency.test.ts'],
  },
  {
    name: 'does not end the fetches of a call whose client left',
    why: 'Work that nobody waits for goes on until the deadline.',
    file: 'workers/handler/context.ts',
    text: 'joinSignals([call.signal], ',
    replacement: 'joinSignals([], ',
    tests: ['workers/handler/egress.test.ts'],
  },
  {
    name: 'doubles the wait before a restart without a cap',
    why: 'A child that failed for a while is down for minutes.',
    file: 'supervisor/tree/restart.ts',
    text: 'Math.min(this.#limits.backoffMs * 2 ** (count - 2), this.#limits.backoffMaxMs)',
    replacement: 'this.#limits.backoffMs * 2 ** (count - 2)',
    tests: ['supervisor/tree/restart.test.ts'],
  },
  {
    name: 'caps the wait before a restart at a minute',
    why: 'As above, by the number.',
    file: 'protocol/limits.ts',
    text: 'restartBackoffMaxMs: 5 * SECOND,',
    replacement: 'restartBackoffMaxMs: 60 * SECOND,',
    tests: ['supervisor/tree/restart.test.ts'],
  },
  {
    name: 'reads the shortened address of a host that mounts it below a path',
    why: 'An embedded gateway answers nothing.',
    file: 'supervisor/edge/node-exchange.ts',
    text: "(req as { originalUrl?: string }).originalUrl ?? req.url ?? ''",
    replacement: "req.url ?? ''",
    tests: ['test/embedding.e2e.test.ts'],
    named: 'mounts the gateway below a path',
  },
  {
    name: 'decides by the shortened address whether a request is its own',
    why: 'A host that mounts the gateway below a path answers 404 for it.',
    file: 'supervisor/gateway.ts',
    text: "(req as { originalUrl?: string }).originalUrl ?? req.url ?? '/'",
    replacement: "req.url ?? '/'",
    tests: ['test/embedding.e2e.test.ts'],
    named: 'mounts the gateway below a path',
  },
];

const DURABILITY: Fault[] = [
  {
    name: 'places a file that was not flushed',
    why: 'After a power cut, files such as the registry are empty.',
    file: 'storage/atomic-file.ts',
    text: '        await file.sync();\n',
    replacement: '',
    tests: ['storage/atomic-file.test.ts'],
  },
  {
    name: 'does not flush the folder of a file that it placed',
    why: 'After a power cut, the old file is back although the new one was promised.',
    file: 'storage/atomic-file.ts',
    text: '    await syncDir(dirname(this.#path));\n',
    replacement: '',
    tests: ['storage/atomic-file.test.ts'],
  },
  {
    name: 'sets a git ref that was not flushed',
    why: 'After a power cut, `main` is an empty file.',
    file: 'storage/git/ref-lock.ts',
    text: '      await file.sync();\n',
    replacement: '',
    tests: ['storage/git/refs.test.ts'],
  },
  {
    name: 'sets a git ref whatever it stands for',
    why: 'What somebody pushed meanwhile is lost from main.',
    file: 'storage/git/refs.ts',
    text: 'if (current !== expected) throw moved(name);',
    replacement: '',
    tests: ['storage/git/refs.test.ts'],
  },
  {
    name: 'writes at lower durability than was configured',
    why: 'A power cut loses acknowledged writes.',
    file: 'workers/writer/database.ts',
    text: 'db.pragma(`synchronous = ',
    replacement: 'db.pragma(`synchronous = NORMAL -- ',
    tests: ['workers/writer/database.test.ts'],
  },
  {
    name: 'drops the intention before the pointer moves',
    why: 'A crash between leaves the old code on migrated data.',
    file: 'supervisor/deployments/activation.ts',
    text: '  await staged.place();\n',
    replacement: '  await removeDurable(app.pending);\n  await staged.place();\n',
    tests: ['supervisor/deployments/deploy.test.ts'],
  },
  {
    name: 'migrates without an intention',
    why: 'A crash after the migrations leaves the old code on new data.',
    file: 'supervisor/deployments/activation.ts',
    text: '    await writePending(app, { versionId: version.versionId, migrations: version.migrations });\n',
    replacement: '',
    tests: ['supervisor/deployments/deploy.test.ts'],
  },
  {
    name: 'does not finish an activation whose last migration is in the data',
    why: 'The old code serves migrated data after a crash.',
    file: 'storage/repair.ts',
    text: '(await tools.userVersion(id)) >= pending.migrations',
    replacement: '(await tools.userVersion(id)) > pending.migrations',
    tests: ['supervisor/deployments/deploy.test.ts'],
  },
  {
    name: 'puts the code of a version into place before what was prepared of it',
    why: 'After a crash between, a version counts as whole and cannot be started.',
    file: 'storage/versions.ts',
    text: `  await renameDurable(staged.prepared, target.prepared);
  crashPoint('install.prepared-placed');
  await renameDurable(staged.code, target.code);
`,
    replacement: `  await renameDurable(staged.code, target.code);
  await renameDurable(staged.prepared, target.prepared);
`,
    tests: ['storage/versions.test.ts'],
  },
  {
    name: 'does not flush the copy before a migration',
    why: 'After a power cut, there is neither the old data nor the new.',
    file: 'workers/writer/maintenance.ts',
    text: '    sync(unfinished);\n',
    replacement: '',
    tests: ['workers/writer/maintenance.test.ts'],
  },
  {
    name: 'commits migrations that break references',
    why: 'Rows refer to others that are gone.',
    file: 'workers/writer/maintenance.ts',
    text: '    if (violation)\n',
    replacement: '    if (violation && false)\n',
    tests: ['workers/writer/maintenance.test.ts'],
  },
  {
    name: 'takes a backup of an app outside of its hold',
    why: 'A backup holds the pointer of one version and the files of another.',
    file: 'storage/backup/take.ts',
    text: 'const at = await hold(id, () => add(appSources(id, layout.app(id))));',
    replacement: `const at = await hold(id, async () => {});
    if (at !== null) await add(appSources(id, layout.app(id)));`,
    tests: ['storage/backup/backup.test.ts'],
  },
  {
    name: 'takes zeros behind the end of a backup',
    why: 'A damaged file passes as a whole backup.',
    file: 'storage/backup/read.ts',
    text: 'if (gunzip.bytesWritten !== size) throw invalidBackup(FOLLOWED);',
    replacement: '',
    tests: ['storage/backup/backup.test.ts'],
  },
  {
    name: 'takes zeros behind the end of the archive in a backup',
    why: 'As above, where they were compressed with it.',
    file: 'storage/backup/tar-format.ts',
    text: '!(await bytes.atEnd())',
    replacement: 'false',
    tests: ['storage/backup/backup.test.ts'],
  },
  {
    name: 'does not take a signed webhook again whose run was cancelled',
    why: 'The sender repeats the message for days, and it is never done.',
    file: 'supervisor/automations/history/ledger.ts',
    text: "run.trigger.kind === 'webhook' && run.state !== 'ok'",
    replacement: "run.trigger.kind === 'webhook' && run.state === 'error'",
    tests: ['supervisor/automations/history/ledger.test.ts'],
  },
  {
    name: "takes over a data lock whose holder's start is unknown",
    why: 'Two gateways work on one directory.',
    file: 'storage/data-lock.ts',
    text: "compareIdentity(holder) !== 'gone'",
    replacement: "compareIdentity(holder) === 'same'",
    tests: ['storage/data-lock.test.ts'],
  },
];

const ACCESS: Fault[] = [
  {
    name: 'lets any signed ticket into the writer',
    why: 'A process that has a ticket for something else reaches databases.',
    file: 'workers/writer/connection.ts',
    text: "if (ticket?.role !== 'database') {",
    replacement: 'if (ticket === null || !("file" in ticket)) {',
    tests: ['workers/writer/writer.test.ts'],
  },
  {
    name: 'lets every connection do maintenance',
    why: 'A handler closes or migrates its database.',
    file: 'workers/writer/connection.ts',
    text: 'op >= DbOp.userVersion && !this.#maintain',
    replacement: 'op > DbOp.close && !this.#maintain',
    tests: ['workers/writer/writer.test.ts'],
  },
  {
    name: "lets an app's page call every app",
    why: 'One app reads and writes the data of another.',
    file: 'supervisor/http/access/caller.ts',
    text: 'return app === this.#key && ',
    replacement: 'return app !== null && ',
    tests: ['supervisor/http/access/access.test.ts', 'supervisor/http/access/caller.test.ts'],
  },
  {
    name: 'lets a token for reading into drafts',
    why: 'A program sees what is not published.',
    file: 'supervisor/http/access/grants.ts',
    text: "isDraft && capability !== 'admin' ? 'all' : LEAST[capability]",
    replacement: 'isDraft && LEAST[capability] === null ? null : LEAST[capability]',
    tests: ['supervisor/http/access/grants.test.ts'],
  },
  {
    name: 'takes a session cookie at every origin',
    why: "An app's page that gets hold of a cookie uses it elsewhere.",
    file: 'supervisor/http/access/cookie.ts',
    text: 'place.host}`).digest()',
    replacement: 'place.kind}`).digest()',
    tests: ['supervisor/http/access/access.test.ts'],
  },
  {
    name: 'takes session cookies that have expired',
    why: 'A sign-in never ends.',
    file: 'supervisor/http/access/cookie.ts',
    text: 'if (Number(expires) <= now || ',
    replacement: 'if (',
    tests: ['supervisor/http/access/access.test.ts'],
  },
  {
    name: 'takes writes from other origins',
    why: "A page of one app acts with the user's session at another.",
    file: 'supervisor/http/access/fetch-metadata.ts',
    text: 'if (!reads) return true;',
    replacement: '',
    tests: ['supervisor/http/access/access.test.ts'],
  },
  {
    name: 'finds tokens for programs that have expired',
    why: 'A token for a week works for ever.',
    file: 'supervisor/http/access/program-tokens.ts',
    text: '    if (isExpired(entry, now)) return undefined;\n',
    replacement: '',
    tests: ['supervisor/http/access/program-tokens.test.ts'],
  },
  {
    name: 'remembers every token that was ever presented',
    why: 'Strangers fill the memory of the supervisor.',
    file: 'supervisor/http/access/access.ts',
    text: '    if (this.#digests.size >= LIMITS.tokenDigests) this.#digests.clear();\n',
    replacement: '',
    tests: ['supervisor/http/access/access.test.ts'],
  },
  {
    name: 'answers at every host name',
    why: 'A page elsewhere reaches the gateway by a name that leads to this machine.',
    file: 'supervisor/http/access/places.ts',
    text: 'if (!isLoopback && !this.#named.has(name) && !(this.#anyAddress && isIP(name) !== 0)) return null;',
    replacement: '',
    tests: ['supervisor/http/access/places.test.ts'],
  },
  {
    name: 'shows errors at the origin of a page without its policy',
    why: 'A 401 or 404 may be framed and its content guessed.',
    file: 'supervisor/http/pipeline.ts',
    text: 'isPage ? pagePolicy(place) : {}',
    replacement: '{}',
    tests: ['test/origins.e2e.test.ts'],
    named: 'the policy of a page',
  },
  {
    name: 'lets two requests of a webhook in at once',
    why: 'Two runs of one webhook overlap.',
    file: 'supervisor/automations/webhooks/webhook-gate.ts',
    text: "if (entry.running !== null) throw new SvcError('CONFLICT', 'An earlier request to this webhook is still running.');",
    replacement: '',
    tests: ['supervisor/automations/webhooks/webhook-gate.test.ts'],
  },
  {
    name: 'ends with 1 where the gateway says 403',
    why: 'A script cannot tell a token that may not from a failure.',
    file: 'cli/failure.ts',
    text: '(error.status === 401 || error.status === 403)',
    replacement: 'error.status === 401',
    tests: ['cli/failure.test.ts'],
  },
];

export const FAULTS: readonly Fault[] = [...HOT_PATH, ...DURABILITY, ...ACCESS];
