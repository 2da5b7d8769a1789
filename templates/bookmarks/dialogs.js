/** The dialogs in which a bookmark is changed and a list is imported. `write(action, input)` is the page's. */
import { readTags, toAddress } from './text.js';
import { $, say, toast } from './ui.js';

/** Resolves to the value of the button that closed the dialog, empty for Escape. */
function closed(dialog) {
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue), { once: true });
  });
}

/** `remove` is called when that was chosen instead. */
export async function edit({ id, url, title, note, tags }, write, remove) {
  $('edit-title').value = title;
  $('edit-url').value = url;
  $('edit-tags').value = tags.join(', ');
  $('edit-note').value = note;
  for (;;) {
    const choice = await closed($('editor'));
    if (choice === 'remove') await remove();
    if (choice !== 'save') return;
    const address = toAddress($('edit-url').value);
    if (!address) {
      toast('This is not the address of a web page.');
      continue;
    }
    const change = { title: $('edit-title').value, note: $('edit-note').value, tags: readTags($('edit-tags').value) };
    if (await write('update', { id, ...change, ...(address !== url && { url: address }) })) return;
  }
}

export async function askForImport(write) {
  while ((await closed($('importer'))) === 'import') {
    const input = { text: $('import-text').value, tags: readTags($('import-tags').value) };
    const result = await write('import', input);
    if (!result) continue;
    const { added, known, skipped } = result;
    const more = [
      known > 0 && `${known} known already`,
      skipped > 0 && `${skipped} ${skipped === 1 ? 'line' : 'lines'} without an address`,
    ];
    toast([`${added} imported`, ...more.filter(Boolean)].join(', '));
    say(`${added} imported`);
    $('import-text').value = '';
    $('import-tags').value = '';
    return;
  }
}
