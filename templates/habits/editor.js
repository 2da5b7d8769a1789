/** The dialog in which a habit is changed, put away or removed. */
import { $, confirmed, create, openForm } from './ui.js';

const COLORS = ['green', 'blue', 'violet', 'rose', 'amber', 'teal'];
const dialog = $('editor');
let habit = null;
let write = null;

$('edit-goal').append(...[...$('goal').options].map((option) => option.cloneNode(true)));
document.querySelector('.swatches').append(
  ...COLORS.map((color) => {
    const radio = create('input', { type: 'radio', name: 'color', value: color });
    radio.setAttribute('aria-label', color);
    radio.dataset.color = color;
    return radio;
  }),
);

/** `send(action, input)` writes. */
export function edit(what, send) {
  habit = what;
  write = send;
  $('edit-name').value = habit.name;
  $('edit-goal').value = habit.goal;
  dialog.querySelector(`[value=${habit.color}]`).checked = true;
  const unit = habit.goal === 7 ? 'Days' : 'Weeks';
  $('best').textContent = `${unit} in a row: ${habit.streak} now, ${habit.best} at best.`;
  openForm(dialog, { save });
}

async function save() {
  const name = $('edit-name').value.trim();
  if (name === '') return true;
  const color = dialog.querySelector(':checked[name=color]').value;
  return write('update', { id: habit.id, name, goal: Number($('edit-goal').value), color });
}

$('put-away').addEventListener('click', () => {
  dialog.close();
  void write('update', { id: habit.id, archived: true });
});

$('delete').addEventListener('click', async () => {
  dialog.close();
  if (await confirmed(`Remove “${habit.name}” and everything that was checked off?`))
    await write('remove', { id: habit.id });
});
