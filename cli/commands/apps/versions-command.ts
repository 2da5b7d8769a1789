/** `svc versions <app>`, `svc activate`, `svc rollback`: the stored versions of an app, and what is printed when one goes live. */
import type { UploadAnswer } from '../../../protocol/answer-types.ts';
import type { NewWebhook } from '../../../protocol/automations/automation.ts';
import type { InputIssue } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Received } from '../../../protocol/routes/api.ts';
import { RULES } from '../../../protocol/rules/gates/rules.ts';
import type { CommandContext } from '../../command.ts';
import { CommandError } from '../../failure.ts';
import type { Client } from '../../gateway/client.ts';
import { readList, showList } from '../../resource.ts';
import { VERSIONS } from '../../resources.ts';
import type { Terminal } from '../../terminal/terminal.ts';

/** The end of an id of the tarball store, or the number of a version of the git store. */
const SHORT_ID = /^[0-9a-f]{6}$/;
const NUMBER = /^v?(\d{1,9})$/;

export async function listVersions({ args, terminal, connect }: CommandContext): Promise<void> {
  const app = args.at(0);
  const limit = args.number('lines', 1, LIMITS.listRowsMax) ?? VERSIONS.limit;
  const { rows } = await readList(connect(), VERSIONS, [app], { limit, before: args.text('before') });
  showList(terminal, VERSIONS, rows);
  const last = rows.length === limit && !terminal.json ? rows.at(-1) : undefined;
  if (last !== undefined) terminal.note(`Older ones, if any: svc versions ${app} --before ${last.versionId}`);
}

export async function activate({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.at(0);
  const versionId = await findVersion(client, app, args.at(1));
  const sent = { params: { id: app }, body: { versionId } };
  showActivated(terminal, await client.call('POST /svc/_apps/:id/activate', sent));
}

export async function rollback({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.at(0);
  const named = args.optionalAt(1);
  const body = named === undefined ? {} : { version: await findVersion(client, app, named) };
  showActivated(terminal, await client.call('POST /svc/_apps/:id/rollback', { params: { id: app }, body }));
}

/** The shortest text that `findVersion` takes for a version: its last six characters, or on the git store `v3`. */
export function shortVersion(versionId: string): string {
  return versionId.slice(Math.max(versionId.lastIndexOf('_'), versionId.lastIndexOf('/')) + 1);
}

/** A version's id, from the id itself, its last six characters, or on the git store its number (`3` or `v3`). */
export async function findVersion(client: Client, app: string, typed: string): Promise<string> {
  const number = NUMBER.exec(typed)?.[1];
  if (number === undefined && !SHORT_ID.test(typed)) return typed;
  const { rows } = await readList(client, VERSIONS, [app], { limit: LIMITS.listRowsMax });
  const ids = rows.map(({ versionId }) => versionId);
  const matches = ids.filter((id) => id.endsWith(`_${typed}`));
  if (matches.length > 1)
    throw new CommandError(`"${typed}" matches ${matches.length} versions.`, ['Use the whole id:', ...matches]);
  const isTagged = ids.some((id) => id.startsWith(`${app}/v`));
  if (isTagged && number !== undefined) return `${app}/v${Number(number)}`;
  return matches[0] ?? typed;
}

/** Prints which version is live now, and the applied migrations that it does not have. */
function showActivated(terminal: Terminal, answer: Received<'POST /svc/_apps/:id/activate'>): void {
  const { id, activeVersion, previousVersion, migrationsAhead = [], webhooks = [] } = answer;
  const { style } = terminal;
  terminal.answer(answer, () => {
    const live = `${activeVersion} of ${style('bold', id)}`;
    if (previousVersion === activeVersion) {
      terminal.done(`${live} is live already`);
      return;
    }
    terminal.done(`${live} is live`);
    if (previousVersion) terminal.line(style('dim', `  before it: ${previousVersion}`));
    if (migrationsAhead.length > 0) {
      const ahead = `migration${migrationsAhead.length === 1 ? '' : 's'} ${migrationsAhead.join(', ')}`;
      terminal.line(style('yellow', `  the data stays as it is: it is ahead of this version by ${ahead}`));
    }
    drawMinted(terminal, webhooks);
  });
}

/** Prints what was found in the files: the place, the advice and the rule. */
export function drawWarnings(terminal: Terminal, warnings: InputIssue[] = []): void {
  const { style } = terminal;
  for (const warning of warnings)
    terminal.line(
      `${style('yellow', '!')} ${placeOf(warning)} ${warning.message} ${style('dim', `(${warning.keyword})`)}`,
    );
  if (!warnings.some(({ keyword }) => RULES.has(keyword))) return;
  const more = warnings.length < LIMITS.inputIssues ? '' : ` These are the first ${warnings.length}.`;
  terminal.line(`  Publishing on a git store refuses such handlers; see docs/handler-rules.md.${more}`);
}

/** `file:line:column`, as far as it is known. */
export function placeOf({ path, line, column }: Pick<InputIssue, 'path' | 'line' | 'column'>): string {
  return [path, line, column].filter((part) => part !== undefined && part !== '').join(':');
}

/** New webhooks: generated secrets are shown only now, the others have to be set. */
export function drawMinted(terminal: Terminal, webhooks: NewWebhook[]): void {
  const { style, noteStyle } = terminal;
  for (const webhook of webhooks) {
    const { ownerApp, automationId, url } = webhook;
    terminal.done(`webhook of ${style('bold', `${ownerApp}/${automationId}`)}`);
    const secret = 'secret' in webhook ? webhook.secret : `${webhook.secretName}, of the app`;
    terminal.facts({ url: style('cyan', url), secret });
  }
  if (webhooks.some((webhook) => 'secret' in webhook))
    terminal.note(noteStyle('yellow', 'Keep the secret now: it is not shown again.'));
}

/** Webhooks that a publication will create. */
export function drawPending(terminal: Terminal, webhooks: { ownerApp: string; automationId: string }[] = []): void {
  for (const { ownerApp, automationId } of webhooks)
    terminal.note(`Publishing creates the webhook of ${ownerApp}/${automationId}, and prints its secret once.`);
}

/** The hosts that an app may reach. Without a list, the configuration decides. */
export function drawNetwork(network: string[] | null): string {
  if (network === null) return 'any host that the configuration allows';
  return network.length === 0 ? 'none' : network.join(', ');
}

/** The apps whose tools an app's pages may call. */
export function drawUses(uses: string[] | null): string {
  return uses === null || uses.length === 0 ? 'no other app' : uses.join(', ');
}

/** What visitors may use of an app. */
export function drawPublic(parts: string[] | null): string {
  return parts === null || parts.length === 0 ? 'nothing' : `${parts.join(', ')}, without a token`;
}

/** Facts of a version that went live. */
export function factsOfVersion(
  version: Pick<UploadAnswer, 'migrationsApplied' | 'network' | 'uses' | 'public'>,
): Record<string, string | undefined> {
  return {
    migrated: version.migrationsApplied.join(', '),
    network: version.network && drawNetwork(version.network),
    uses: version.uses && drawUses(version.uses),
    public: version.public && drawPublic(version.public),
  };
}
