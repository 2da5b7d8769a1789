/** Explains an error: what happened and what to do next, with the nearest name if a name is unknown. */
import { ERROR_CODES, type ErrorBody, type ErrorCode, type InputIssue, SvcError } from '../protocol/errors.ts';
import { GatewayError } from '../protocol/http/gateway-error.ts';
import { NEXT_STEPS } from '../protocol/next-steps.ts';
import type { Subject } from './command.ts';
import { CommandError, messageOf, systemStep } from './failure.ts';
import type { Client } from './gateway/client.ts';
import { describeApp } from './gateway/descriptions.ts';
import { find, readAll, readList } from './resource.ts';
import { APPS, AUTOMATIONS, shownWorkspace, TEMPLATES, TRASH, WORKSPACES } from './resources.ts';
import { nearest } from './terminal/nearest.ts';

type Explanation = { title: string; lines: string[] };

/** Names listed when none is near the one that was typed. */
const LISTED = 8;

const DIFF = 'svc diff <app> --workspace <workspace>';
const UPDATE = 'svc workspaces update <workspace> --app <app>';
const PUBLISH = 'svc publish <app> --workspace <workspace>';

/** `client` gets the names that exist; those of the command line are compared with them. */
export async function explain(error: unknown, client: Client | undefined, subject: Subject): Promise<Explanation> {
  if (error instanceof GatewayError || error instanceof SvcError) return explainBody(error.toBody(), client, subject);
  if (error instanceof CommandError) return { title: error.message, lines: [error.hint ?? []].flat() };
  return { title: messageOf(error), lines: [systemStep(error)] };
}

async function explainBody(body: ErrorBody, client: Client | undefined, subject: Subject): Promise<Explanation> {
  const { code, message, path, issues = [], files = [] } = body;
  const isSaid = !path || message.includes(path) || code === 'UNKNOWN_TEMPLATE' || code === 'WOULD_REPLACE';
  const lines = [
    ...(isSaid ? [] : [`at ${path}`]),
    ...issues.slice(1).map((issue) => `${placeOf(issue)}: ${issue.message}`),
    ...files.filter((file) => !message.includes(file)),
    ...(await nextSteps(body, client, subject)),
  ];
  return { title: `${code}: ${message}`, lines };
}

/** A file with line and column, or a place in the input. */
function placeOf({ path, line, column }: InputIssue): string {
  return line === undefined ? path || '(input)' : `${path}:${line}:${column ?? 1}`;
}

/** Advice for this particular error, else what the documents say about its code. */
async function nextSteps(body: ErrorBody, client: Client | undefined, subject: Subject): Promise<string[]> {
  const own = await ownSteps(body, client, subject);
  return own.length > 0 || !isCode(body.code) ? own : stepsOf(body.code, body.path, subject);
}

function isCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_CODES, code);
}

/** The documents' sentences, with the names of the command line in their commands, so that these can be pasted. */
function stepsOf(code: ErrorCode, path: string | undefined, { app, tool, workspace, dir, worksIn }: Subject): string[] {
  const named = Object.entries({ app, tool, workspace: worksIn ?? workspace, dir });
  return NEXT_STEPS[code]
    .replace(' at `path`', () => (path ? ` at ${path}` : ''))
    .replace(/(?:that|in) `issues`(?: names)?/, 'named above')
    .split(/(?<=\.) /)
    .map((sentence) =>
      named.reduce(
        (text, [name, value]) => (value ? text.replaceAll(`<${name}>`, () => value) : text),
        sentence.replace(/(?<=`|\.md)\.$/, '').replaceAll('`', ''),
      ),
    );
}

async function ownSteps(body: ErrorBody, client: Client | undefined, subject: Subject): Promise<string[]> {
  const { app = '', tool = '', workspace = '', template = '', automation = '', worksIn } = subject;
  // A failed request must not hide the error that is being explained.
  const ask = async <T>(question: (client: Client) => Promise<T[]>): Promise<T[] | null> =>
    client === undefined ? null : question(client).catch(() => null);
  const appsOf = async (id: string): Promise<string[] | null> =>
    client === undefined ? null : ((await find(client, WORKSPACES, id).catch(() => undefined))?.apps ?? null);

  switch (body.code) {
    case 'UNAUTHORIZED':
      return [tokenHint(client)];
    case 'BAD_REQUEST':
      return requestAdvice(subject);
    case 'UNKNOWN_APP': {
      const own = worksIn === undefined ? null : await appsOf(worksIn);
      const live = (await ask((open) => readAll(open, APPS)))?.map(({ id }) => id) ?? null;
      if (own?.length) return suggest(app, own, `Apps of ${worksIn}`, '', live ?? []);
      return (
        (await notLive(app, ask)) ?? suggest(app, live, 'Registered apps', 'No app is registered yet: svc push <dir>')
      );
    }
    case 'UNKNOWN_QUERY':
    case 'UNKNOWN_ACTION': {
      const list = body.code === 'UNKNOWN_QUERY' ? 'queries' : 'actions';
      const tools = await ask(async (open) => (await describeApp(open, app))[list].map(({ name }) => name));
      return suggest(tool, tools, `Its ${list}`, `It has no ${list}.`);
    }
    case 'UNKNOWN_AUTOMATION': {
      const list = await ask(async (open) => (await readList(open, AUTOMATIONS, [], { app })).rows);
      const ids = list?.map(({ id }) => id) ?? null;
      return suggest(automation, ids, `Automations of ${app}`, `${app} has no automations.`);
    }
    case 'UNKNOWN_SESSION': {
      const ids = (await ask((open) => readAll(open, WORKSPACES)))?.map(({ sessionId }) => sessionId) ?? null;
      return suggest(workspace, ids, 'Open workspaces', 'No open workspaces. Open one: svc workspaces open');
    }
    case 'UNKNOWN_TEMPLATE': {
      // The message lists them all.
      const templates = await ask((open) => readAll(open, TEMPLATES));
      const meant = nearest(template, templates?.map(({ id }) => id) ?? []);
      return meant === undefined ? [] : [`Did you mean "${meant}"?`];
    }
    case 'MERGE_CONFLICT':
    case 'NO_CHANGES':
    case 'INVALID_MIGRATION':
      if (worksIn === undefined) return [];
      return workspaceAdvice(body, { ...subject, worksIn }, subject.app ? [subject.app] : await appsOf(worksIn));
    default:
      return [];
  }
}

/** For an app that was removed or is not published yet: where it is, and how to make it live. Null for others. */
async function notLive(
  app: string,
  ask: <T>(question: (client: Client) => Promise<T[]>) => Promise<T[] | null>,
): Promise<string[] | null> {
  const removed = (await ask((open) => readAll(open, TRASH)))?.some((row) => row.app === app);
  // A workspace of a removed app would publish it with empty data.
  if (removed) return [`It was removed. Get it back: svc trash restore ${app}`];
  const row = (await ask((open) => readAll(open, WORKSPACES)))?.find(({ apps }) => apps.includes(app));
  if (row === undefined) return null;
  const workspace = row.sessionId;
  return [
    `It is in the workspace ${shownWorkspace(row)}, and is not published yet.`,
    `Make it live: svc publish ${app} --workspace ${workspace}`,
    `Look at its draft: svc open ${app} --workspace ${workspace}`,
  ];
}

/** The message says what is wrong; the help of the command says what is right. */
function requestAdvice({ command, app }: Subject): string[] {
  if (command === undefined) return [];
  const tables = command === 'sql' ? [`Its tables: svc sql ${app} 'SELECT sql FROM sqlite_schema'`] : [];
  return [...tables, `What it takes: svc help ${command}`];
}

/** What to do about a workspace that cannot be published: commands that can be pasted, for its app if it has only one. */
function workspaceAdvice(
  body: ErrorBody,
  { worksIn, dir }: Subject & { worksIn: string },
  apps: string[] | null,
): string[] {
  const [app = '<app>', ...others] = apps ?? [];
  const named = others.length > 0 ? '<app>' : app;
  if (dir !== undefined && body.code === 'MERGE_CONFLICT') return folderAdvice(body, named, dir);
  return waysOut(body).map((line) => line.replace('<workspace>', () => worksIn).replace('<app>', () => named));
}

/** What to do about a folder that cannot be published: its next publication would take its files, and not those of the workspace. */
function folderAdvice({ path }: ErrorBody, app: string, dir: string): string[] {
  if (path !== undefined) return [`When all are resolved: svc publish ${dir}`];
  return [
    `Take the published lines into the folder: svc pull ${app} ${dir}`,
    `Choose between the marks, then publish again: svc publish ${dir}`,
  ];
}

function waysOut({ code, path, files }: ErrorBody): string[] {
  if (code === 'NO_CHANGES') return ['Edit something first: svc dev <dir> --workspace <workspace>'];
  if (code === 'INVALID_MIGRATION') {
    if (files === undefined) return [];
    return [`Take the other one in: ${UPDATE}`, `Rename the workspace's, then publish again: ${PUBLISH}`];
  }
  // With a path, the marks of an update are left in that file.
  if (path !== undefined) return [`Where they are: ${DIFF}`, `When all are resolved: ${PUBLISH}`];
  return [
    `What the workspace changes: ${DIFF}`,
    `Take the published lines in: ${UPDATE}`,
    `Choose between the marks, then publish again: ${PUBLISH}`,
  ];
}

function tokenHint(client: Client | undefined): string {
  const { token, tokenFrom } = client?.connection ?? { token: undefined, tokenFrom: '' };
  if (token === undefined)
    return 'No token was sent. Give one with --token, or with SVC_TOKEN beside SVC_URL; "svc token" prints it on the gateway\'s machine.';
  return `The token from ${tokenFrom} is not the gateway's. "svc token" prints the right one on the gateway's machine.`;
}

/** `more` are suggested too, but not listed. */
function suggest(
  typed: string,
  names: string[] | null,
  title: string,
  whenNone: string,
  more: string[] = [],
): string[] {
  if (names === null) return [];
  const meant = nearest(typed, [...names, ...more]);
  if (meant !== undefined && meant !== typed) return [`Did you mean "${meant}"?`];
  if (names.length === 0) return [whenNone];
  return [`${title}: ${names.slice(0, LISTED).join(', ')}${names.length > LISTED ? ', …' : ''}`];
}
