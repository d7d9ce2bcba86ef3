"""A node is an anomaly after six abnormal marks, for a minute."""

from trimtab.core.rescheduling.rivals.anomaly_detector import AnomalyCondition, AnomalyDetector, known_detector

CONDITION = AnomalyCondition()


def marked(times: int, interval: float = 120.0) -> AnomalyDetector:
    """Abnormal this often, last at 0."""
    detector = AnomalyDetector()
    for number in range(times):
        detector = detector.mark_abnormal((number - times + 1) * interval, CONDITION)
    return detector


def test_more_than_five() -> None:
    """Five marks are not enough."""
    assert (False, True) == (marked(5).is_anomaly, marked(6).is_anomaly)


def test_a_minute_later_it_counts_again() -> None:
    """The state expires, and the next mark is the first of six."""
    assert marked(6).mark_abnormal(60.0, CONDITION).is_anomaly
    later = marked(6).mark_abnormal(61.0, CONDITION)
    assert (False, 1) == (later.is_anomaly, later.abnormal)


def test_normal_marks() -> None:
    """One normal mark starts the count of an ok node again; an anomaly needs four."""
    assert 1 == marked(5).mark_normal(1.0, CONDITION).mark_abnormal(2.0, CONDITION).abnormal
    detector, states = marked(6), []
    for second in range(4):
        detector = detector.mark_normal(float(second), CONDITION)
        states.append(detector.is_anomaly)
    assert [True, True, True, False] == states


def test_reset() -> None:
    """It ends an anomaly, and leaves the count of an ok node as it is."""
    assert (False, 5) == (marked(6).reset().is_anomaly, marked(5).reset().abnormal)


def test_forgotten() -> None:
    """After five minutes without an abnormal mark."""
    detectors = {"a": marked(3)}
    assert detectors["a"] == known_detector(detectors, "a", 300.0)
    assert known_detector(detectors, "a", 300.1) is None
