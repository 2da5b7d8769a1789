/** Of the host's package, which is not installed with this one, only what the plugin imports. */
declare module 'openclaw/plugin-sdk/plugin-entry' {
  export function definePluginEntry<Entry>(entry: Entry): Entry;
}
