window.BENCHMARK_DATA = {"lastUpdate": 1795436900000, "repoUrl": "https://example.org/r", "entries": {"Benchmark": [
{"commit": {"author": {"name": "a"}, "id": "fefd73b679beb4bab4e38bcbc680625278f6a4fc", "message": "one", "timestamp": "2026-11-22T13:00:00+01:00", "url": ""}, "date": 1795436880000, "tool": "customBiggerIsBetter", "benches": [{"name": "throughput", "value": 1.5, "unit": "MB/s", "range": "± 0.1", "extra": "n=3"}]},
{"commit": {"author": {"name": "a"}, "id": "aae50d388b319602cc6aef2bcb6ab67441b1f25e", "message": "two", "timestamp": "2026-11-23T13:00:00+01:00", "url": ""}, "date": 1795436890000, "tool": "customBiggerIsBetter", "benches": [{"name": "throughput", "value": 1.7, "unit": "MB/s", "range": "± 0.1"}, {"name": "time", "value": 12.5, "unit": "ms/iter"}]}
]}}
