/** Names what the web's globals of a realm are made of: objects of the thread. */
export type NodeWeb = Pick<
  typeof globalThis,
  'URL' | 'URLSearchParams' | 'TextEncoder' | 'TextDecoder' | 'atob' | 'btoa'
> &
  Pick<typeof import('node:crypto'), 'randomBytes' | 'randomUUID'> & {
    types: Pick<typeof import('node:util').types, 'isProxy' | 'isDate' | 'isMap' | 'isSet' | 'isArrayBuffer'>;
  };
