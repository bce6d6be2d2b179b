// Runs the shop until it is told to stop, with its background jobs in the same process.
const { bootstrap, JobQueueService } = require('@vendure/core');
const { config } = require('./config');

async function main() {
  const app = await bootstrap(config);
  await app.get(JobQueueService).start();
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
