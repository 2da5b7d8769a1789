/** Which agent answers, and with which model: a conversation stays with its agent, a new one begins with the one chosen last. */
import { useEffect, useState } from 'preact/hooks';
import { GatewayError, get } from '../../gateway.ts';
import type { Conversation } from './conversations.ts';

type Runner = { name: string; label: string; models: { id: string; name?: string }[] };

export type Models = {
  /** Null until they were read, and for those who may not ask. */
  runners: readonly Runner[] | null;
  /** The agent of the conversation; null before its first message. */
  usual: string | null;
  value: string;
  choose(value: string): void;
  chosen: { runner: string | undefined; model: string | undefined };
};

/** Of the choice that was made last, in the browser's storage. */
const KEY = 'svc-console:agent';

/** `name` is that of the conversation, `known` what is known of it. */
export function useModels(
  name: string,
  known: Pick<Conversation, 'adapter'> | undefined,
  complain: (error: Error) => void,
): Models {
  const usual = known?.adapter ?? null;
  const [runners, setRunners] = useState<readonly Runner[] | null>(null);
  const [wanted, setWanted] = useState('');
  useEffect(() => {
    const kept = keptChoice();
    setWanted(usual === null || namesOf(kept)[0] === usual ? kept : '');
  }, [name]);
  useEffect(() => {
    const read = async () => {
      // Who may not ask about agents gets the default one.
      const status = await get<Record<string, unknown>>('/svc/_agents/status').catch(() => null);
      if (status === null) return;
      const found = runnersOf(status);
      setRunners(found);
      if (found.length === 0) complain(new GatewayError(503, 'NO_RUNNER', 'No agent was found.'));
    };
    void read();
  }, []);
  const choose = (value: string) => {
    keepChoice(value);
    setWanted(value);
  };
  // It may be gone from the configuration.
  const value = runners === null || isOffered(runners, wanted) ? wanted : '';
  const [runner, model] = namesOf(value);
  return { runners, usual, value, choose, chosen: { runner, model } };
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

function runnersOf(status: Record<string, unknown>): Runner[] {
  const names = Object.keys(status).flatMap((name) => /^(.+)Available$/.exec(name)?.[1] ?? []);
  return names
    .filter((name) => status[`${name}Available`])
    .map((name) => ({
      name,
      label: [name, status[`${name}Version`], status[`${name}SignedIn`] === false && '(not signed in)']
        .filter(Boolean)
        .join(' '),
      models: (status[`${name}Models`] ?? []) as Runner['models'],
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
