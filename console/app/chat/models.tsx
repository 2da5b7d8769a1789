/** Which agent answers, and with which model: a conversation stays with its agent, a new one begins with the one chosen last. */
import { useEffect, useState } from 'preact/hooks';
import type { Received } from '../../../protocol/routes/api.ts';
import { gateway } from '../../gateway.ts';
import type { Conversation } from './conversations.ts';

type Runner = { name: string; label: string; models: readonly { id: string; name?: string }[]; isReady: boolean };
/** An agent that was found and cannot answer yet, and why. */
type Unready = { name: string; why: string };

export type Models = {
  /** Null until they were read, and for those who may not ask. */
  runners: readonly Runner[] | null;
  /** It is known that no agent can answer. */
  isNone: boolean;
  unready: readonly Unready[];
  /** How often it was looked again. */
  checks: number;
  /** Looks again for agents and their sign-ins. */
  check(): Promise<void>;
  /** The agent of the conversation; null before its first message. */
  usual: string | null;
  value: string;
  choose(value: string): void;
  chosen: { runner: string | undefined; model: string | undefined };
};

/** Of the choice that was made last, in the browser's storage. */
const KEY = 'svc-console:agent';

/** `name` is that of the conversation, `known` what is known of it. */
export function useModels(name: string, known: Pick<Conversation, 'adapter'> | undefined): Models {
  const usual = known?.adapter ?? null;
  const [status, setStatus] = useState<Status | null>(null);
  const [checks, setChecks] = useState(0);
  const runners = status?.runners ?? null;
  const [wanted, setWanted] = useState('');
  useEffect(() => {
    const kept = keptChoice();
    setWanted(usual === null || namesOf(kept)[0] === usual ? kept : '');
  }, [name]);
  useEffect(() => {
    // Who may not ask about agents gets the default one.
    readStatus().then(setStatus, () => {});
  }, []);
  const check = async () => {
    setStatus(await readStatus('1'));
    setChecks((count) => count + 1);
  };
  const choose = (value: string) => {
    keepChoice(value);
    setWanted(value);
  };
  // It may be gone from the configuration.
  const value = runners === null || isOffered(runners, wanted) ? wanted : '';
  const [runner, model] = namesOf(value);
  const { isNone = false, unready = [] } = status ?? {};
  return { runners, isNone, unready, checks, check, usual, value, choose, chosen: { runner, model } };
}

type Reports = Received<'GET /svc/_agents/status'>;
type Status = Pick<Models, 'isNone' | 'unready'> & { runners: readonly Runner[] };

async function readStatus(refresh?: '1'): Promise<Status> {
  const status = await gateway.call('GET /svc/_agents/status', { query: { refresh } });
  const runners = runnersOf(status);
  const unready = namesIn(status).flatMap((name): Unready[] => {
    const isReady = runners.some((runner) => runner.name === name && runner.isReady);
    if (isReady || !status[`${name}Version`]) return [];
    return [{ name, why: status[`${name}Detail`] ?? 'It is not signed in.' }];
  });
  const isReady = runners.some((runner) => runner.isReady);
  // Where the gateway's host runs the turns, the gateway knows of no runner.
  const isHosts = async () => (await gateway.call('GET /svc/_turn/runner-status')).kind !== 'none';
  return { runners, unready, isNone: !isReady && (namesIn(status).length > 0 || !(await isHosts())) };
}

function keptChoice(): string {
  try {
    return localStorage.getItem(KEY) ?? '';
  } catch {
    return '';
  }
}

function keepChoice(value: string): void {
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // It then lasts as long as the page.
  }
}

/** The runner and model of a choice, as far as it names them. */
function namesOf(value: string): string[] {
  try {
    return JSON.parse(value || '[]');
  } catch {
    return [];
  }
}

function isOffered(runners: readonly Runner[], value: string): boolean {
  const [runner, model] = namesOf(value);
  const known = runners.find(({ name }) => name === runner);
  return known !== undefined && (model === undefined || known.models.some(({ id }) => id === model));
}

const namesIn = (status: Reports): string[] =>
  Object.keys(status).flatMap((name) => /^(.+)Available$/.exec(name)?.[1] ?? []);

function runnersOf(status: Reports): Runner[] {
  return namesIn(status)
    .filter((name) => status[`${name}Available`])
    .map((name) => ({
      name,
      label: [name, status[`${name}Version`], status[`${name}SignedIn`] === false && '(not signed in)']
        .filter(Boolean)
        .join(' '),
      models: status[`${name}Models`] ?? [],
      isReady: status[`${name}SignedIn`] !== false,
    }));
}

export function ModelChoice({ models }: { models: Models }) {
  if (!models.runners || models.runners.length === 0) return null;
  return (
    <select
      aria-label="Agent and model"
      value={models.value}
      onChange={({ currentTarget }) => models.choose(currentTarget.value)}
    >
      <option value="">{models.usual === null ? 'Default agent' : `${models.usual}, as before`}</option>
      {models.runners.map(({ name, label, models: own }) => (
        <optgroup key={name} label={label}>
          <option value={JSON.stringify([name])}>{name}, its own choice</option>
          {own.map((model) => (
            <option key={model.id} value={JSON.stringify([name, model.id])}>
              {model.name ?? model.id}
            </option>
          ))}
        </optgroup>
      ))}
    </select>
  );
}
