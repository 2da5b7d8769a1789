/** Makes a class of a realm look as the web's: its name, and members that can be enumerated. */

// App code could replace them.
const { defineProperty } = Object;
const { getOwnPropertyDescriptor, ownKeys } = Reflect;

export function asWebClass<C extends abstract new (...given: never[]) => object>(Class: C, name: string): C {
  const prototype = Class.prototype as object;
  for (const owner of [Class, prototype])
    for (const key of ownKeys(owner)) {
      const found = getOwnPropertyDescriptor(owner, key);
      if (typeof key !== 'string' || key === 'constructor' || found?.configurable !== true) continue;
      if (key !== 'name' && key !== 'length') defineProperty(owner, key, { ...found, enumerable: true });
    }
  defineProperty(Class, 'name', { value: name, configurable: true });
  defineProperty(prototype, Symbol.toStringTag, { value: name, configurable: true });
  return Class;
}
