/** The dialogs in which a bookmark is changed and a list is imported. `write(action, input)` is the page's. */
import { readTags, toAddress } from './text.js';
import { $, openForm, say, toast } from './ui.js';

/** `remove` is called when that was chosen instead. */
export function edit({ id, url, title, note, tags }, write, remove) {
  $('edit-title').value = title;
  $('edit-url').value = url;
  $('edit-tags').value = tags.join(', ');
  $('edit-note').value = note;
  const save = () => {
    const address = toAddress($('edit-url').value);
    if (!address) {
      toast('This is not the address of a web page.');
      return null;
    }
    const change = { title: $('edit-title').value, note: $('edit-note').value, tags: readTags($('edit-tags').value) };
    return write('update', { id, ...change, ...(address !== url && { url: address }) });
  };
  openForm($('editor'), {
    save: async () => (await save()) !== null,
    remove: () => {
      $('editor').close();
      return remove();
    },
  });
}

export function askForImport(write) {
  openForm($('importer'), {
    import: async () => {
      const input = { text: $('import-text').value, tags: readTags($('import-tags').value) };
      const result = await write('import', input, true);
      if (!result) return false;
      const { added, known, skipped } = result;
      const more = [
        known > 0 && `${known} known already`,
        skipped > 0 && `${skipped} ${skipped === 1 ? 'line' : 'lines'} without an address`,
      ];
      $('importer').close();
      toast([`${added} imported`, ...more.filter(Boolean)].join(', '));
      say(`${added} imported`);
      $('import-text').value = '';
      $('import-tags').value = '';
      return true;
    },
  });
}
