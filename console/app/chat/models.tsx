/** Which agent answers, and with which model. */
import { useEffect, useState } from 'preact/hooks';
import { GatewayError, get } from '../../gateway.ts';

type Runner = { name: string; label: string; models: { id: string; name?: string }[] };

export type Models = {
  /** Null until they were read, and for those who may not ask. */
  runners: readonly Runner[] | null;
  value: string;
  choose(value: string): void;
  chosen: { runner: string | undefined; model: string | undefined };
};

export function useModels(complain: (error: Error) => void): Models {
  const [runners, setRunners] = useState<readonly Runner[] | null>(null);
  const [value, choose] = useState('');
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
  const [runner, model] = JSON.parse(value || '[]') as string[];
  return { runners, value, choose, chosen: { runner, model } };
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
      <option value="">Default agent</option>
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
