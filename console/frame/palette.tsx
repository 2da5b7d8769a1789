/** Finds an app, a view, a run or a command by a few letters (Ctrl K or ⌘K). */
import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import type { AutomationRow, TemplateRow } from '../../protocol/answer-types.ts';
import { go, useAddress } from '../address.ts';
import { readAutomations } from '../automations/read-automation.ts';
import { gateway as client } from '../gateway.ts';
import { isOwners, useGateway } from '../gateway-state.tsx';
import { usePolled } from '../polled.ts';
import { notifyProblem } from '../ui/notice.tsx';
import { plural } from '../words.ts';
import { type CommandContext, commandsOf } from './commands.tsx';
import { useFoundRuns } from './found-runs.ts';
import { DOCUMENT_ENTRIES, type Entry, type Group, matching, ordered, placesOf, wordsOf } from './palette-entries.ts';

const SHOWN = { places: 8, commands: 6, documents: 4 };

type Lists = { automations: AutomationRow[]; templates: TemplateRow[] };
const NONE: Lists = { automations: [], templates: [] };

/** Names for runs and commands. A list that cannot be read is empty, and the rest is still found. */
async function readLists(signal: AbortSignal): Promise<Lists> {
  const [automations, templates] = await Promise.allSettled([
    readAutomations(undefined, signal),
    client.call('GET /svc/_templates', {}, { signal }),
  ]);
  return {
    automations: automations.status === 'fulfilled' ? automations.value.rows : [],
    templates: templates.status === 'fulfilled' ? templates.value : [],
  };
}

type PaletteProps = Pick<CommandContext, 'ask' | 'signOut'> & { onClose: () => void };

export function Palette({ ask, signOut, onClose }: PaletteProps) {
  const gateway = useGateway();
  const { apps = [] } = gateway;
  const isAll = isOwners(gateway);
  const { parts } = useAddress();
  const [sought, setSought] = useState('');
  /** The key of the entry that Enter takes; it stays the chosen one when others come. */
  const [chosenKey, choose] = useState<string>();
  const { value: lists = NONE } = usePolled(
    async (signal) => (isAll ? await readLists(signal) : NONE),
    `palette ${isAll}`,
    0,
  );
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);

  // The browser reports the close later, when the next one may be open.
  const closed = () => dialog.current !== null && onClose();
  const app = parts[0] === 'apps' ? parts[1] : undefined;
  const words = wordsOf(sought);
  const places = useMemo(() => placesOf(gateway), [gateway]);
  const commands = commandsOf({ gateway, ...lists, app, ask, signOut });
  const runs = useFoundRuns(sought, isAll ? { apps, automations: lists.automations } : null);
  const groups: Group[] = [
    ...ordered(
      [
        { name: 'Apps and views', entries: matching(places, words, SHOWN.places) },
        { name: 'Commands', entries: matching(commands, words, SHOWN.commands) },
        {
          name: 'Documents',
          entries: words.length === 0 ? [] : matching(DOCUMENT_ENTRIES, words, SHOWN.documents),
        },
      ],
      words,
    ),
    // They arrive later than the other groups, so they are last: nothing above them moves.
    ...(runs.entries.length > 0 ? [{ name: 'Runs', entries: runs.entries }] : []),
  ];
  const found = groups.flatMap(({ entries }) => entries);
  const chosen = Math.max(
    0,
    found.findIndex(({ key }) => key === chosenKey),
  );
  const optionId = (index: number) => `${id}-${index}`;
  useEffect(() => {
    document.getElementById(optionId(chosen))?.scrollIntoView({ block: 'nearest' });
  }, [chosen, found.length]);

  const take = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    if ('act' in entry) void (async () => entry.act())().catch(notifyProblem);
    else if (entry.href.startsWith('#')) go(entry.href);
    else location.assign(entry.href);
  };
  const pressed = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && found.length > 0) {
      event.preventDefault();
      choose(found[(chosen + step + found.length) % found.length]?.key);
    } else if (event.key === 'Enter' && !event.isComposing) {
      event.preventDefault();
      take(found[chosen]);
    }
  };
  let index = 0;
  return (
    <dialog ref={dialog} class="palette" aria-label="Search" onClose={closed}>
      <input
        role="combobox"
        aria-label="Search apps, runs and commands"
        aria-expanded={found.length > 0}
        aria-controls={`${id}-found`}
        aria-autocomplete="list"
        aria-activedescendant={found.length > 0 ? optionId(chosen) : undefined}
        placeholder={isAll ? 'Search apps, runs and commands' : 'Search apps and commands'}
        autocomplete="off"
        spellcheck={false}
        value={sought}
        onInput={({ currentTarget }) => {
          setSought(currentTarget.value);
          choose(undefined);
        }}
        onKeyDown={pressed}
      />
      <div id={`${id}-found`} role="listbox" aria-label="Found" tabindex={-1}>
        {groups.map(({ name, entries }) => (
          // biome-ignore lint/a11y/useSemanticElements: a fieldset is no group of options.
          <div key={name} role="group" aria-labelledby={`${id} ${name}`.replaceAll(' ', '-')}>
            <p id={`${id} ${name}`.replaceAll(' ', '-')} class="hint">
              {name}
            </p>
            {entries.map((entry) => {
              const at = index++;
              return (
                <Option
                  key={entry.key}
                  id={optionId(at)}
                  entry={entry}
                  isChosen={at === chosen}
                  onTaken={onClose}
                  onAct={() => take(entry)}
                />
              );
            })}
          </div>
        ))}
      </div>
      <p class="hint" role="status">
        {found.length > 0
          ? plural(found.length, 'result')
          : runs.isReading
            ? 'Searching the runs…'
            : 'Nothing matches.'}
      </p>
    </dialog>
  );
}

type OptionProps = { id: string; entry: Entry; isChosen: boolean; onTaken: () => void; onAct: () => void };

/** A link is one for the browser too: it opens elsewhere with the keys for that. */
function Option({ id, entry, isChosen, onTaken, onAct }: OptionProps) {
  const props = { id, role: 'option', tabindex: -1, 'aria-selected': isChosen } as const;
  const said = (
    <>
      <span>{entry.text}</span>
      <span class="hint">{entry.aside}</span>
    </>
  );
  if ('act' in entry) {
    return (
      <button type="button" {...props} onClick={onAct}>
        {said}
      </button>
    );
  }
  return (
    <a {...props} href={entry.href} onClick={onTaken}>
      {said}
    </a>
  );
}
