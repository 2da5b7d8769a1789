/** Groups of people, with which apps can be shared: makes, fills and removes them. */
import { useState } from 'preact/hooks';
import { LIMITS } from '../../protocol/limits.ts';
import type { RowIn } from '../../protocol/routes/api.ts';
import { gateway } from '../gateway.ts';
import { notify } from '../ui/notice.tsx';
import { Button, Card, Confirm, Dialog, Field, Problem } from '../ui/parts.tsx';
import { useWork } from '../work.ts';

type Person = RowIn<'GET /svc/_people'>;
type Group = RowIn<'GET /svc/_groups'>;
type GroupsProps = { groups: readonly Group[]; people: readonly Person[]; onChanged: () => void };

export function Groups({ groups, people, onChanged }: GroupsProps) {
  /** Null: a new one. */
  const [editing, setEditing] = useState<Group | null>();
  const [removing, setRemoving] = useState<Group>();
  const remove = async ({ id, name }: Group) => {
    await gateway.call('DELETE /svc/_groups/:gid', { params: { gid: id } });
    notify(`The group ${name} is removed.`);
    onChanged();
  };
  return (
    <Card
      class={groups.length > 0 ? 'table' : ''}
      title="Groups"
      aside={
        <Button class="small" onClick={() => setEditing(null)}>
          New group…
        </Button>
      }
    >
      {groups.length === 0 && <p class="none">An app can be shared with a group: all who are in it have it.</p>}
      {groups.length > 0 && (
        <table class="stacked">
          <tbody>
            {groups.map((group) => (
              <tr key={group.id}>
                <td>
                  <b>{group.name}</b>
                </td>
                <td>{group.members.length === 1 ? '1 person' : `${group.members.length} people`}</td>
                <td class="number">
                  <Button class="small" aria-label={`Change ${group.name}`} onClick={() => setEditing(group)}>
                    Change…
                  </Button>{' '}
                  <Button class="small" aria-label={`Remove ${group.name}`} onClick={() => setRemoving(group)}>
                    Remove
                  </Button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {editing !== undefined && (
        <GroupDialog group={editing} people={people} onDone={onChanged} onClose={() => setEditing(undefined)} />
      )}
      {removing && (
        <Confirm
          title={`Remove ${removing.name}?`}
          verb="Remove group"
          onDone={() => remove(removing)}
          onClose={() => setRemoving(undefined)}
        >
          <p>What is shared with it is theirs no more. The people keep their accounts.</p>
        </Confirm>
      )}
    </Card>
  );
}

type GroupDialogProps = { group: Group | null; people: readonly Person[]; onDone: () => void; onClose: () => void };

function GroupDialog({ group, people, onDone, onClose }: GroupDialogProps) {
  const [name, setName] = useState(group?.name ?? '');
  const [members, setMembers] = useState<readonly string[]>(group?.members ?? []);
  const { isBusy, error, run } = useWork();
  const submit = (event: Event) => {
    event.preventDefault();
    void run(async () => {
      const body = { name: name.trim(), members: [...members] };
      if (group === null) await gateway.call('POST /svc/_groups', { body });
      else await gateway.call('PATCH /svc/_groups/:gid', { params: { gid: group.id }, body });
      onDone();
      onClose();
    });
  };
  const toggle = (id: string) =>
    setMembers(members.includes(id) ? members.filter((one) => one !== id) : [...members, id]);
  return (
    <Dialog title={group === null ? 'New group' : group.name} onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <Field label="Name" problem={error?.path === 'name' ? error.message : undefined}>
          <input
            required
            value={name}
            maxLength={LIMITS.personNameChars}
            onInput={({ currentTarget }) => setName(currentTarget.value)}
          />
        </Field>
        <fieldset class="choices">
          <legend class="label">Who is in it</legend>
          {people.map(({ id, name: shown, email }) => (
            <label key={id} class="line">
              <input type="checkbox" checked={members.includes(id)} onChange={() => toggle(id)} />
              {shown} {email !== null && <span class="hint">{email}</span>}
            </label>
          ))}
        </fieldset>
        {error?.path !== 'name' && <Problem error={error} />}
        <div class="line end">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" disabled={isBusy}>
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
