// The first process: starts the workers, which share one port, and tells what they have counted.
//
//   node app.js run DIR/app.json      listen and answer until told to stop
//   node app.js ask DIR               print what the process that runs in DIR says of itself
'use strict';

const cluster = require('node:cluster');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');

const CONTROL = 'control.sock';
const PATIENCE_MS = 2000;

function fail(message) {
  process.stderr.write(`node-app: ${message}\n`);
  process.exit(1);
}

function run(file) {
  const config = JSON.parse(fs.readFileSync(file, 'utf8'));
  // a socket by its relative name: an absolute path may be longer than the 107 bytes that a socket's name can have
  process.chdir(path.dirname(file));
  cluster.setupPrimary({ exec: path.join(__dirname, 'worker.js'), args: [path.basename(file)] });
  const workers = Array.from({ length: config.processes }, () => cluster.fork());
  const ready = new Set();
  cluster.on('listening', (worker) => ready.add(worker.id));
  // no worker takes the place of another: with fewer processes it would be another configuration
  cluster.on('exit', (worker, code, signal) => fail(`worker ${worker.id} ended: ${signal || code}`));
  net.createServer((connection) => {
    connection.on('error', () => connection.destroy());
    if (ready.size < workers.length) connection.end();
    else Promise.all(workers.map(counts)).then((all) => connection.end(status(config, all)), () => connection.destroy());
  }).listen(CONTROL);
}

function counts(worker) {
  return new Promise((resolve) => {
    worker.once('message', resolve);
    worker.send('counts');
  });
}

function status(config, all) {
  const sum = (name) => all.reduce((total, one) => total + one[name], 0);
  return [
    `config-id ${config.config_id}`,
    `workers ${all.length}`,
    `requests ${sum('requests')}`,
    `connections ${sum('connections')}`,
    `failed ${sum('failed')}`,
    '',
  ].join('\n');
}

function ask(dir) {
  process.chdir(dir);
  const connection = net.connect(CONTROL);
  let text = '';
  connection.setTimeout(PATIENCE_MS, () => fail('no answer'));
  connection.on('error', (error) => fail(error.message));
  connection.on('data', (data) => { text += data; });
  connection.on('end', () => (text ? process.stdout.write(text) : fail('not every worker listens yet')));
}

const verbs = { run, ask };
const [verb, where] = process.argv.slice(2);
if (!verbs[verb] || !where) fail('usage: app.js run FILE, app.js ask DIR');
verbs[verb](where);
