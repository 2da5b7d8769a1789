// Gives the form that adds a gateway (add.html) its one call.
const { contextBridge, ipcRenderer } = require('electron');

contextBridge.exposeInMainWorld('desktop', {
  addGateway: (entry) => ipcRenderer.invoke('add-gateway', entry),
});
