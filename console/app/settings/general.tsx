/** What an app is called, how it looks in lists, and what visitors may use of it. Each change is published at once. */
import { useRef, useState } from 'preact/hooks';
import { publicParts } from '../../../protocol/manifest.ts';
import type { Sent } from '../../../protocol/routes/api.ts';
import { documentHref } from '../../docs/help-pages.ts';
import { gateway } from '../../gateway.ts';
import { useGateway } from '../../gateway-state.tsx';
import { notify } from '../../ui/notice.tsx';
import { Button, Card, Field, Problem, Tile } from '../../ui/parts.tsx';
import { useWork } from '../../work.ts';
import { type AppDetail, toolsIn } from '../views.ts';
import { iconOf } from './icon-file.ts';

type Props = { app: AppDetail; onChanged: () => void };

/** Publishes members of the manifest; what is refused is said by `error`. */
function useChange({ app, onChanged }: Props) {
  const { reload } = useGateway();
  const { isBusy, error, run } = useWork();
  const change = (members: Sent<'POST /svc/_apps/:id/meta'>['body']) =>
    run(async () => {
      const sent = { params: { id: app.id }, body: { ...members, publish: true } };
      const { tag, version } = await gateway.call('POST /svc/_apps/:id/meta', sent);
      notify(`${tag ?? version} is live.`);
      reload();
      onChanged();
    });
  return { isBusy, error, change };
}

export function General(props: Props) {
  const { app } = props;
  const { isBusy, error, change } = useChange(props);
  const [name, setName] = useState(app.name);
  const [description, setDescription] = useState(app.description ?? '');
  /** The text of a new `icon.svg`; null removes the one that is there, undefined leaves it. */
  const [icon, setIcon] = useState<string | null>();
  const [unread, setUnread] = useState<Error>();
  const chosen = useRef<HTMLInputElement>(null);
  const members = {
    ...(name.trim() !== app.name && { name: name.trim() }),
    ...(description.trim() !== (app.description ?? '') && { description: description.trim() }),
    ...(icon !== undefined && { icon }),
  };
  const choose = async (file: File | undefined) => {
    if (file === undefined) return;
    try {
      setUnread(undefined);
      setIcon(await iconOf(file));
    } catch (problem) {
      setUnread(problem as Error);
    }
  };
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!(await change(members))) return;
    setIcon(undefined);
    if (chosen.current) chosen.current.value = '';
  };
  return (
    <Card title="General">
      <form class="stack" onSubmit={submit}>
        <Field label="Name">
          <input value={name} required maxLength={200} onInput={({ currentTarget }) => setName(currentTarget.value)} />
        </Field>
        <Field label="Description">
          <input
            value={description}
            maxLength={1000}
            onInput={({ currentTarget }) => setDescription(currentTarget.value)}
          />
        </Field>
        <div class="icon-choice">
          {icon ? (
            <img class="tile" src={`data:image/svg+xml,${encodeURIComponent(icon)}`} alt="" />
          ) : (
            <Tile key={app.activeVersion} {...app} icon={icon === null ? undefined : app.icon} />
          )}
          <Field label="Icon" hint="An SVG is best; other pictures are made smaller.">
            <input
              ref={chosen}
              type="file"
              accept="image/svg+xml,image/png,image/jpeg,image/webp"
              onChange={({ currentTarget }) => void choose(currentTarget.files?.[0])}
            />
          </Field>
          {app.icon && icon === undefined && (
            <Button class="small" onClick={() => setIcon(null)}>
              Remove icon
            </Button>
          )}
        </div>
        <Problem error={unread ?? error} />
        <div class="line end">
          <Button type="submit" kind="primary" disabled={isBusy || Object.keys(members).length === 0}>
            {isBusy ? 'Publishing…' : 'Save'}
          </Button>
        </div>
      </form>
    </Card>
  );
}

/** Who may use the app without a sign-in or a token. */
export function Visibility(props: Props) {
  const { app } = props;
  const { isBusy, error, change } = useChange(props);
  const { queries, actions } = toolsIn(app);
  const now = publicParts(app.manifest ?? {});
  const [open, setOpen] = useState<readonly string[]>(now);
  const tools = [...queries.map(({ name }) => `query ${name}`), ...actions.map(({ name }) => `action ${name}`)];
  const box = (part: string, text: string) => (
    <label key={part} class="line">
      <input
        type="checkbox"
        checked={open.includes(part)}
        onChange={({ currentTarget: { checked } }) =>
          setOpen(checked ? [...open, part] : open.filter((one) => one !== part))
        }
      />
      {text}
    </label>
  );
  const isSame = open.length === now.length && open.every((part) => now.includes(part));
  return (
    <Card class="visibility" title="Visitors" aside={<a href={documentHref(['public-apps'])}>About public apps</a>}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void change({ public: open });
        }}
      >
        <p class="hint">
          {open.length === 0
            ? 'Nobody may use this app without a sign-in or a token.'
            : 'Everyone who can reach this gateway may use what is checked, without a sign-in.'}
        </p>
        {box('page', 'Its page and files')}
        {tools.length > 0 && (
          <fieldset class="visitor-tools">
            <legend class="label">Tools</legend>
            {tools.map((part) => box(part, part))}
          </fieldset>
        )}
        <Problem error={error} />
        <div class="line end">
          <Button type="submit" kind="primary" disabled={isBusy || isSame}>
            {isBusy ? 'Publishing…' : 'Save visitors'}
          </Button>
        </div>
      </form>
    </Card>
  );
}
