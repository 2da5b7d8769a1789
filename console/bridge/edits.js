/** Knows whether somebody has written something in the page that a reload would lose. */

/** The fields that somebody has changed; of those that are no form controls, what they held before. */
const touched = new Map();
for (const type of ['beforeinput', 'input']) addEventListener(type, touch, true);

function touch(event) {
  const [field] = event.composedPath();
  if (!(field instanceof Element) || touched.has(field)) return;
  for (const old of touched.keys()) if (!old.isConnected) touched.delete(old);
  touched.set(field, event.type === 'beforeinput' ? field.textContent : null);
}

/** Whether a field holds something else than at first. What a form is reset to, or a closed dialog left behind, is nobody's loss. */
function isWritten([field, before]) {
  if (!field.isConnected || field.closest('dialog:not([open])')) return false;
  if (field.isContentEditable) return field.textContent !== before;
  const isChoice = field.matches('select, [type=checkbox], [type=radio]');
  // A choice outside of a form takes effect when it is made.
  if (!isChoice) return field.value !== (field.defaultValue ?? field.value);
  return field.form !== null && (field.options ? isChosen(field) : field.checked !== field.defaultChecked);
}

function isChosen({ options, multiple }) {
  const all = [...options];
  const first = all.find((option) => option.defaultSelected) ?? (multiple ? undefined : all[0]);
  return all.some((option) => option.selected !== (option.defaultSelected || option === first));
}

export const hasEdits = () => [...touched].some(isWritten);
