/** The runs of automations and chats: a list with a bar that filters it, or one of them. */
import { RUN_STATES } from '../../protocol/automations/run-states.ts';
import { CHAT_RUNS } from '../../protocol/automations/runs.ts';
import { type Address, go, hrefOf } from '../address.ts';
import { readAutomations } from '../automations/read-automation.ts';
import { useGateway } from '../gateway-state.tsx';
import { usePolled } from '../polled.ts';
import { RunView } from './run.tsx';
import { FILTERS, RunList } from './run-list.tsx';

export function RunsView({ address }: { address: Address }) {
  const runId = address.parts[1];
  if (runId !== undefined) return <RunView key={runId} runId={runId} />;
  return (
    <>
      <header class="heading">
        <h1>Runs</h1>
      </header>
      <Filters query={address.query} />
      <RunList query={address.query} />
    </>
  );
}

/** An address with `ref` alone shows its app too. */
function Filters({ query }: { query: URLSearchParams }) {
  const { apps = [] } = useGateway();
  const ref = query.get('ref') ?? '';
  const app = query.get('app') ?? '';
  const choose = (changed: Partial<Record<(typeof FILTERS)[number], string>>) =>
    go(hrefOf(['runs'], { ...Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ''])), ...changed }));
  const appOptions = apps.map(({ id, name }): Option => [id, name]);
  return (
    <div class="line filters">
      {/* An automation of another app would match no run. */}
      <Filter
        label="App"
        every="All apps"
        value={app || (ref.split('/')[0] ?? '')}
        options={appOptions}
        onChoose={(value) => choose({ app: value, ref: '' })}
      />
      <Filter
        label="Automation"
        every="All automations"
        value={ref}
        options={useAutomationOptions(app)}
        onChoose={(value) => choose({ ref: value })}
      />
      <Filter
        label="State"
        every="All states"
        value={query.get('state') ?? ''}
        options={RUN_STATES.map((state): Option => [state, state])}
        onChoose={(value) => choose({ state: value })}
      />
    </div>
  );
}

/**
 * The automations of one app and its chats; with `app` empty, the automations of all apps. A choice then does not shorten the list:
 * a browser chooses again at each letter that is typed.
 */
function useAutomationOptions(app: string): Option[] {
  const { value } = usePolled((signal) => readAutomations(app || undefined, signal), app, 0);
  const options = (value?.rows ?? []).map(({ ref, id }): Option => [ref, app === '' ? ref : id]);
  return app === '' ? options : [...options, [`${app}/${CHAT_RUNS}`, 'Chat']];
}

type Option = [value: string, text: string];
type FilterProps = {
  label: string;
  /** What is shown while nothing is chosen. */
  every: string;
  value: string;
  options: Option[];
  onChoose: (value: string) => void;
};

/** The value may be none of the options: the history has runs of automations and apps that were removed. */
function Filter({ label, every, value, options, onChoose }: FilterProps) {
  const isListed = value === '' || options.some(([one]) => one === value);
  return (
    <select aria-label={label} value={value} onChange={({ currentTarget }) => onChoose(currentTarget.value)}>
      <option value="">{every}</option>
      {!isListed && <option value={value}>{value}</option>}
      {options.map(([one, text]) => (
        <option key={one} value={one}>
          {text}
        </option>
      ))}
    </select>
  );
}
